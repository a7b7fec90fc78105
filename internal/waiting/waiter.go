package waiting

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Waiter is an acquire that has to wait. A waiter for several keys or permits is a set: it holds none of
// them meanwhile.
type Waiter struct {
	Lines      *Lines
	Context    context.Context    //nolint:containedctx // it is one call
	Key        string             // in errors
	Keys       []string           // the lines of the waiter, in order
	Held       []string           // the caller's keys, in order: a set goes before waiters for one of them
	Carries    []Holder           // the locks that the waiter works for
	RankedFrom clockdrift.Instant // the beginning without a priority
	Base       protocol.Ticket    // its ticket, but for the rank
	Call       any                // for the host's attempts
	How        How                // the way to the last try
	Seen       acquire.Sighting   // by its tries
	Ticket     Ticket             // for the next try to leave; nil: none

	gift   chan Attempt  // a promised hand-over under way, or nil if the promise came to nothing
	nudged chan struct{} // something changed: look again

	// Its own.
	acquire.Waiting
	rank  atomic.Int64 // see [Waiter.Rank]
	last  error        // the last decided try's
	Stays bool         // the next try leaves a ticket, if the waiter has a rank

	// Guarded by Lines.mu.
	line     *line // of the key that is wanted alone; nil: the waiter is a set
	element  *list.Element
	watches  *watches  // of its keys
	standing *standing // at the nodes: the line's, or the set's own
	verdict  error     // the deadlock for which the waiter is to give up
	covered  int       // by this number of the sets right before, over all lines
	state    state
	missed   bool    // a key may have become free after the last try
	calls    *Waiter // the first of the waiters called to try once before their turn; nil: not called
	lead     *Waiter // the same, of the present try or lock; nil: it was not called
}

// A state says what a waiter can take.
type state uint8

const (
	parked   state = iota // a hand-over
	trying                // nothing: the waiter asks the nodes itself
	promised              // the hand-over under way
)

// nudge makes the waiter look again.
func (w *Waiter) nudge() {
	select {
	case w.nudged <- struct{}{}:
	default:
	}
}

// Lead is the first of those with whom w was called to make its present try; else w. w's own goroutine asks.
func (w *Waiter) Lead() *Waiter { return cmp.Or(w.lead, w) }

// Give gives a waiter its promised hand-over, or nil if the promise came to nothing.
func (w *Waiter) Give(a Attempt) { w.gift <- a }

// Wait waits in line and tries until the waiter has the lock or the waiting ends. It begins with a failed
// try, or with nil.
func (w *Waiter) Wait(failed Attempt) (lock Attempt, err error) {
	w.gift, w.nudged = make(chan Attempt, 1), make(chan struct{}, 1)
	w.Lines.join(w)
	defer func() { w.Lines.leave(w, lock) }()
	if failed != nil {
		w.plan(failed)
	}
	bound := time.NewTimer(w.Left(w.Lines.Clock.Now()))
	defer bound.Stop()
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	for {
		attempt, err := w.await(alarm, bound.C)
		if err != nil {
			return nil, err
		}
		if attempt == nil {
			attempt, err = w.Lines.Host.Try(w)
			<-w.Lines.Tries
		} else {
			w.How = HandedOver
			err = w.Lines.Host.Await(w, attempt)
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

// await waits until the time of the next try (nil, with room in the host's tries), a hand-over, or the end
// of the waiting.
func (w *Waiter) await(alarm *time.Timer, bound <-chan time.Time) (Attempt, error) {
	switch w.How = Woken; {
	case w.Tries == 0:
		w.How = Direct
	case w.Due != 0:
		w.How = Polled
	}
	for {
		wait, news, first := w.Lines.look(w)
		var tries chan<- struct{}
		if wait <= 0 {
			tries, wait = w.Lines.Tries, math.MaxInt64
		}
		alarm.Reset(wait)
		select {
		case tries <- struct{}{}:
			return nil, nil
		case gift := <-w.gift:
			if w.Lines.takes(w, gift); gift != nil {
				return gift, nil
			}
			w.How, w.Due = Woken, 0
		case <-news:
			w.How, w.Due = Woken, 0
		case <-w.nudged:
			if end := w.Lines.verdictOn(w); end != nil {
				return w.stop(end)
			}
			if w.How = Woken; !first && w.IsSet() {
				w.Due = w.Lines.Clock.Now().Add(acquire.TicketPeriod) // the nodes tell whose turn it is there
			}
		case <-alarm.C:
			if w.How = Polled; !first {
				w.Due = 0 // the sets before rest
			}
		case <-bound:
			return w.stop(nil)
		case <-w.Context.Done():
			return w.stop(fault.EndOf(w.Context))
		case <-w.Lines.Closing:
			return w.stop(fault.ErrClosed)
		}
	}
}

// stop ends the waiting, unless a hand-over is under way: that lock is taken, and given back if need be.
func (w *Waiter) stop(end error) (Attempt, error) {
	promise, last := w.Lines.refuse(w)
	if promise {
		if gift := <-w.gift; gift != nil {
			return gift, nil
		}
	}
	return nil, w.gaveUp(last, end)
}

// Over notes the outcome of a try, and reports whether the waiting ends.
func (w *Waiter) Over(err error) bool {
	w.Tries++
	if w.Context.Err() != nil {
		return true
	}
	w.last = err
	return w.Waiting.Over(w.Lines.Host.Outlook(err), w.Lines.Clock.Now())
}

// GiveUp words the end of the waiting by a try.
func (w *Waiter) GiveUp(err error) error {
	switch end := w.Context.Err(); {
	case end == nil && w.Tries <= 1:
		return err
	case end == nil:
		return w.gaveUp(err, nil)
	case w.last != nil:
		return w.gaveUp(w.last, fault.EndOf(w.Context))
	case errors.Is(err, end):
		return err
	default: // it has ended after the nodes' refusal
		return w.gaveUp(err, fault.EndOf(w.Context))
	}
}

// gaveUp words the end of the waiting.
func (w *Waiter) gaveUp(last, end error) error {
	return w.Lines.Host.GaveUp(last, w.Tries, w.Lines.Clock.Now().Sub(w.Began), end)
}

// plan makes the plan after a failed try.
func (w *Waiter) plan(failed Attempt) {
	found, now := failed.Found(), w.Lines.Clock.Now()
	w.Met(&found, now)
	watches, at := w.Lines.failed(w, found.Holder, w.last)
	at.Free, at.Turn, at.Hears = watches.found(&found), watches.first(), watches.quorate()
	w.Failed(&found, at, w.Lines.Trip(), w.Lines.Jitter, now)
}

// firstOnly reports whether the waiter tries only where it is first in line, as the nodes tell it. Where
// some nodes keep no lines, a waiter for a plain lock tries wherever the key is free.
func (w *Waiter) firstOnly() bool { return w.Fair || w.Ages && !w.IsSet() && w.Lines.KeepLines() }

// stands reports whether the next try leaves a ticket at the nodes, where the ticket stays until the wait is
// over. Lines.mu is held.
func (w *Waiter) stands() bool { return w.stood() || w.Stands(w.Lines.Clock.Now()) }

// lineRank is the rank in the lines where the waiter may have a ticket; 0: nowhere. Lines.mu is held.
func (w *Waiter) lineRank() int64 {
	if w.stood() || w.stands() && !w.Ages {
		return w.Rank()
	}
	return 0
}
