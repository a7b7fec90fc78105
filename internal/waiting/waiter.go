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
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Waiter is an Acquire that has to wait.
type Waiter struct {
	Host    Host
	Lines   *Lines
	Context context.Context //nolint:containedctx // it is one call
	Key     string
	Options Options
	Began   clockdrift.Instant
	Rank    clockdrift.Instant // when it would have begun without a priority
	Call    any                // what the host makes attempts of
	Joins   bool               // it may have the key beside others that do
	Mark    any                // by which the host keeps others from joining while it waits; nil: it does not
	How     How                // it came to its last try
	Seen    Sighting           // by its tries
	Place   atomic.Int64       // in the key's line, in microseconds of the nodes' clocks; 0: not known yet

	turn   chan struct{} // closed when it is the first in its line
	gift   chan Attempt  // what it was promised: a hand-over under way, or nil if that came to nothing
	nudged chan struct{} // something has changed that it should look at

	// Its own.
	outage    clockdrift.Instant // since when no quorum was to be had; 0: it was, the last time
	tries     int
	polls     int  // since the holder was last seen to change
	splits    int  // tries in a row that nobody may have won
	selfWoken bool // what is announced is that the last try's own keys are gone
	seen      string
	last      error              // of the last try that was decided
	outlook   Outlook            // what that means
	due       clockdrift.Instant // when to try next, if nothing happens before
	relies    bool               // that try only looks whether an announcement was lost
	looks     int                // such tries
	given     bool               // it has got a lock that was handed over
	Stood     bool               // a try has left it in the key's line at the nodes

	// Guarded by Lines.mu.
	line    *line
	place   *list.Element
	carries []Holder // the locks that it works for
	ring    []Block  // the deadlock that it is to give up for
	verdict error    // the same, where other Lockers are part of it
	state   state
	missed  bool // a lock on the key was released while it tried
	called  bool // it is to try once before its turn
	// wasCalled: it tries, or has the lock, because it was called.
	wasCalled bool
	relieves  bool // it has taken the place of another in the key's line at the nodes
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

// Wait stands in line and tries until the lock is had or the waiting ends. It begins with a try
// that has failed, or with nil.
func (w *Waiter) Wait(failed Attempt) (lock Attempt, err error) {
	w.turn, w.gift, w.nudged = make(chan struct{}), make(chan Attempt, 1), make(chan struct{}, 1)
	w.Lines.join(w)
	defer func() {
		if w.Stands() {
			w.Lines.relieves(w)
		}
		w.Lines.leave(w, lock)
	}()
	if failed != nil {
		if w.Lines.turnOf(w) == nil { // nobody is before us, who would know better by now
			w.plan(failed)
		}
	}
	bound := time.NewTimer(w.left())
	defer bound.Stop()
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	for {
		attempt, err := w.stand(alarm, bound.C)
		if err != nil {
			return nil, err
		}
		if attempt == nil {
			if w.relies && w.due != 0 {
				w.looks++
			}
			w.relies = false
			leave, end := w.enter(bound.C)
			if leave == nil {
				return w.stop(end)
			}
			attempt, err = w.Host.Try(w)
			leave()
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
		if w.Lines.turnOf(w) != nil {
			w.due = 0 // it tries when its turn comes, by what it finds then
		}
	}
}

// inherit lets w, whose turn comes, go on with the plan of the one before, who has got a place of
// another holder's: whatever else he waited for is as it was. Lines.mu is held.
func (w *Waiter) inherit(before *Waiter) {
	w.seen, w.last, w.outlook = before.seen, before.last, before.outlook
	w.due, w.relies, w.selfWoken = before.due, before.relies, before.selfWoken
	w.polls, w.splits = before.polls, before.splits
}

// left is how much of the longest wait is left.
func (w *Waiter) left() time.Duration { return w.Options.MaxWait - w.Host.Now().Sub(w.Began) }

// stand waits until it is time to try (nil), or a lock is handed over, or the waiting ends.
func (w *Waiter) stand(alarm *time.Timer, bound <-chan time.Time) (Attempt, error) {
	turn := w.Lines.turnOf(w)
	w.How = Woken
	if w.due != 0 {
		w.How = Polled
	}
	for {
		var news <-chan struct{}
		if w.Lines.calls(w) {
			w.How = Woken
			return nil, nil
		}
		if turn == nil {
			wait, announced := w.look()
			if wait <= 0 {
				if w.Lines.begin(w) {
					return nil, nil
				}
				wait = math.MaxInt64 // a lock is on its way here
			}
			alarm.Reset(wait)
			news = announced
		}
		select {
		case gift := <-w.gift:
			if gift != nil {
				return gift, nil
			}
			w.Lines.park(w)
			w.How, w.due = Woken, 0
		case <-turn:
			if w.How, turn = Woken, nil; w.Stands() { // the nodes tell when it is its turn there
				w.due = w.again()
			}
		case <-news:
			w.How, w.due = Woken, 0
		case <-w.nudged:
			w.How, turn = Woken, w.Lines.turnOf(w)
			if end := w.Lines.verdictOn(w); end != nil {
				return w.stop(end)
			}
		case <-alarm.C:
			w.How = Polled
		case <-bound:
			return w.stop(nil)
		case <-w.Context.Done():
			return w.stop(fault.EndOf(w.Context))
		case <-w.Host.Closing():
			return w.stop(fault.ErrClosed)
		}
	}
}

// enter waits for a place among those who try at once: tries of all who are woken at one moment would
// wait for each other until they time out. Leave gives the place up; nil: the waiting is over, and what
// ended it is end, or the bound.
func (w *Waiter) enter(bound <-chan time.Time) (leave func(), end error) {
	places := w.Host.Places()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-bound:
		return nil, nil
	case <-w.Context.Done():
		return nil, fault.EndOf(w.Context)
	case <-w.Host.Closing():
		return nil, fault.ErrClosed
	}
}

// look says how long the first in the line has to wait until it tries, and what would be news
// meanwhile.
func (w *Waiter) look() (wait time.Duration, news <-chan struct{}) {
	holder, yields, watch := w.Lines.ahead(w)
	if holder != nil {
		switch left := holder.Left(); {
		case left > 0 && w.Options.Stands:
			return min(left, w.due.Sub(w.Host.Now())), nil // it has to keep its place
		case left > 0:
			return left, nil // until then it is handed over, or extended
		}
		w.Lines.forget(w, holder)
		return max(w.Host.Trip(), w.due.Sub(w.Host.Now())), nil // its release may be about to leave
	}
	if watch != nil && (w.last == nil || w.outlook.Taken) && !w.selfWoken {
		news = watch.News // where nobody holds it, the news would be of our own tries
	}
	return max(w.due, yields).Sub(w.Host.Now()), news
}

// stop ends the waiting, unless a lock is on its way here: that one is taken, and given back if it
// has to be.
func (w *Waiter) stop(end error) (Attempt, error) {
	if !w.Lines.refuse(w) {
		if gift := <-w.gift; gift != nil {
			return gift, nil
		}
	}
	last := w.last
	if last == nil {
		last = w.Lines.last(w)
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
	return !w.outlook.Waiting || w.tries-w.looks > w.Options.Retries || w.left() <= 0 ||
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

// plan says when to try again after a try that has failed.
func (w *Waiter) plan(failed Attempt) {
	try, renews := failed.Last(), w.Host.Refused(w, failed)
	token := try.Holder()
	watch, local, missed := w.Lines.failed(w, token, w.last)
	w.selfWoken = try.SelfWoken()
	now := w.Host.Now()
	if token != w.seen {
		w.seen, w.polls = token, 0
	}
	switch free := w.Options.Stands && watch.found(try); {
	case !w.Stands() && w.Options.Stands && w.outlook.Taken:
		w.due = 0 // it stands nowhere yet
	case w.Options.Stands && w.outlook.Taken && !watch.first():
		w.due = w.again() // until it is told that it is its turn
	case missed || local && !w.Options.Stands:
		w.due = 0 // a lock of this Locker: see look
	case !w.outlook.Taken:
		w.due = now.Add(w.poll())
	case token == "" || free || watch.found(try):
		w.due = now.Add(splitBackoff(w.Host, w.splits))
		w.splits++
	default:
		w.splits = 0
		w.due = now.Add(w.poll())
		switch expires := try.Frees(); {
		case expires == 0:
		case expires < w.due:
			w.due = expires
		case protocol.Marked(token) && watch.quorate():
			w.due = min(expires, relyUntil(w.Host, now))
			w.relies = w.due < expires
		}
	}
	if again := w.again(); w.Options.Stands && again < w.due {
		w.due, w.relies = again, true
	}
	if again := now.Add(renews); renews > 0 && again < w.due {
		w.due, w.relies = again, true
	}
}

// Stands reports whether the nodes have it in the key's line.
func (w *Waiter) Stands() bool {
	return w.Stood || w.Lines.relieved(w)
}

// again is when to show the nodes that somebody stands in line still.
func (w *Waiter) again() clockdrift.Instant {
	return w.Host.Now().Add(standAgain/2 + w.Host.Jitter(standAgain/2))
}

// poll is the pause to the next try if nothing is announced before.
func (w *Waiter) poll() time.Duration {
	w.polls++
	return w.Options.backoff(w.Host, w.polls-1)
}
