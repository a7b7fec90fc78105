package waiting

import (
	"container/list"
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A Waiter is an acquire that has to wait. If it wants several keys or permits, it is a set: it
// holds none of them meanwhile.
type Waiter struct {
	Host       Host
	Lines      *Lines
	Context    context.Context //nolint:containedctx // it is one call
	Key        string          // how it calls what it wants
	Keys       []string        // in whose lines it is, in order
	Held       []string        // what its caller has, in order: a set goes before those that want one of them
	Options    Options
	Began      clockdrift.Instant
	RankedFrom clockdrift.Instant // when it would have begun without a priority
	Call       any                // what the host makes attempts of
	Joins      bool               // it may have the key beside others that do
	How        How                // it came to its last try
	Seen       Sighting           // by its tries
	NodeRank   atomic.Int64       // its rank in the keys' lines, in microseconds of the nodes' clocks; 0: not known yet
	Number     int64              // of the wait of a set
	TicketName string             // that its ticket has at the nodes

	gift   chan Attempt  // what it was promised: a hand-over under way, or nil if that came to nothing
	nudged chan struct{} // something has changed that it should look at

	// Its own.
	intent
	outage    clockdrift.Instant // since when no quorum was to be had; 0: it was, the last time
	tries     int
	given     bool               // it has got a lock that was handed over
	leads     clockdrift.Instant // since when it is the first in its line; 0: it is not
	outranked bool               // at its last try other tickets were in line
	crowded   bool               // the same, and it is old enough to leave its own; or readers had the key
	rushes    int                // tries that came at once to leave it
	tried     clockdrift.Instant // when its last try began
	calm      clockdrift.Instant // until then no rest of those before lets it try
	atRest    bool               // its next try is when one before rests, or its last one was
	Stays     bool               // its next try leaves its ticket at the nodes
	Ticketed  bool               // a try has

	// Guarded by Lines.mu.
	line    *line // of the key that it wants alone; nil: it is a set
	element *list.Element
	watches *watches // of its keys
	ticket  *ticket
	carries []Holder // the locks that it works for
	ring    []Block  // the deadlock that it is to give up for
	verdict error    // the same, where other Lockers are part of it
	covered int      // by so many of the sets right before it in the lines of its keys
	state   state
	// standing: its tries leave its ticket.
	standing bool
	missed   bool // a key may be free that was not at its last try
	called   bool // it is to try once before its turn
	// wasCalled: it tries, or has the lock, because it was called.
	wasCalled bool
	leader    *Waiter // the first of those with whom it was called
}

// A state says what a waiter can take.
type state uint8

const (
	parked   state = iota // a hand-over
	trying                // nothing: it asks the nodes itself
	promised              // the hand-over that is on its way
)

// nudge makes the waiter look at what has changed.
func (w *Waiter) nudge() {
	select {
	case w.nudged <- struct{}{}:
	default:
	}
}

// Give gives a waiter what it was promised: a hand-over under way, or nil if that came to nothing.
func (w *Waiter) Give(a Attempt) { w.gift <- a }

// isSet reports whether it wants several keys or permits as one lock.
func (w *Waiter) isSet() bool { return w.Options.Wants > 0 }

// Wait waits in line and tries until the lock is had or the waiting ends. It begins with a try
// that has failed, or with nil.
func (w *Waiter) Wait(failed Attempt) (lock Attempt, err error) {
	w.gift, w.nudged = make(chan Attempt, 1), make(chan struct{}, 1)
	w.Lines.join(w)
	defer func() { w.Lines.leave(w, lock) }()
	if failed != nil {
		w.plan(failed)
	}
	bound := time.NewTimer(w.left())
	defer bound.Stop()
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	for {
		attempt, err := w.await(alarm, bound.C)
		if err != nil {
			return nil, err
		}
		if attempt == nil {
			if w.Stays = w.stays(); w.Stays {
				w.Lines.stands(w)
			}
			attempt, err = w.Host.Try(w)
			<-w.Host.Tries()
		} else {
			w.How = HandedOver
			err = w.Host.Await(w, attempt)
			w.given = err == nil
		}
		if err == nil {
			return attempt, nil
		}
		if attempt == nil || w.Over(err) {
			return nil, w.GiveUp(err)
		}
		w.plan(attempt)
	}
}

// left is how much of the longest wait is left.
func (w *Waiter) left() time.Duration { return w.Options.MaxWait - w.Host.Now().Sub(w.Began) }

// await waits until it is time to try (nil), as one of the host's tries, or a lock is handed over, or
// the waiting ends.
func (w *Waiter) await(alarm *time.Timer, bound <-chan time.Time) (Attempt, error) {
	w.How = Woken
	if w.due != 0 {
		w.How = Polled
	}
	for {
		wait, news, first := w.Lines.look(w)
		if first {
			w.lead()
		}
		var tries chan<- struct{}
		if wait <= 0 {
			tries, wait = w.Host.Tries(), math.MaxInt64
		}
		alarm.Reset(wait)
		select {
		case tries <- struct{}{}:
			return nil, nil
		case gift := <-w.gift:
			if w.Lines.takes(w, gift); gift != nil {
				return gift, nil
			}
			w.How, w.due = Woken, 0
		case <-news:
			w.How, w.due = Woken, 0
		case <-w.nudged:
			if end := w.Lines.verdictOn(w); end != nil {
				return w.stop(end)
			}
			if w.How = Woken; !first && (w.isSet() || w.Ticketed) {
				w.due = w.again() // if it is its turn here, the nodes tell when it is there
			}
		case <-alarm.C:
			if w.How = Polled; !first {
				w.due = 0 // those before it rest
			}
		case <-bound:
			return w.stop(nil)
		case <-w.Context.Done():
			return w.stop(fault.EndOf(w.Context))
		case <-w.Host.Closing():
			return w.stop(fault.ErrClosed)
		}
	}
}

// stop ends the waiting, unless a lock is on its way here: that one is taken, and given back if it
// has to be.
func (w *Waiter) stop(end error) (Attempt, error) {
	promise, last := w.Lines.refuse(w)
	if promise {
		if gift := <-w.gift; gift != nil {
			return gift, nil
		}
	}
	return nil, w.gaveUp(last, end)
}

// Over notes what came of a try, and reports whether that ends the waiting.
func (w *Waiter) Over(err error) bool {
	now := w.Host.Now()
	w.tries++
	if w.Context.Err() != nil {
		return true
	}
	w.last, w.outlook = err, w.Host.Outlook(err)
	switch {
	case w.outlook.Quorum:
		w.outage = 0
	case w.outage == 0:
		w.outage = now
	}
	return !w.outlook.Waiting || w.left() <= 0 ||
		!w.outlook.Quorum && now.Sub(w.outage) >= w.Options.Outage
}

// GiveUp words the end of the waiting by a try.
func (w *Waiter) GiveUp(err error) error {
	switch end := w.Context.Err(); {
	case end == nil && w.tries <= 1:
		return err
	case end == nil:
		return w.gaveUp(err, nil)
	case w.last != nil:
		return w.gaveUp(w.last, fault.EndOf(w.Context))
	case errors.Is(err, end):
		return err
	default: // it has ended since the nodes had said no
		return w.gaveUp(err, fault.EndOf(w.Context))
	}
}

// gaveUp words the end of the waiting.
func (w *Waiter) gaveUp(last, end error) error {
	return w.Host.GaveUp(last, w.tries, w.Host.Now().Sub(w.Began), end)
}
