package waiting

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
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
	Call    any // what the host makes attempts of

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

	// Guarded by Lines.mu.
	line   *line
	place  *list.Element
	state  state
	missed bool // a lock on the key was released while it tried
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
	defer func() { w.Lines.leave(w, lock) }()
	if failed != nil {
		select {
		case <-w.turn: // nobody is before us, who would know better by now
			w.plan(failed.Last())
		default:
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
			attempt, err = w.Host.Try(w)
		} else {
			err = w.Host.Await(w.Context, attempt)
		}
		if err == nil {
			return attempt, nil
		}
		if attempt == nil || w.Over(err) {
			return nil, w.GiveUp(err)
		}
		w.plan(attempt.Last())
	}
}

// left is how much of the longest wait is left.
func (w *Waiter) left() time.Duration { return w.Options.MaxWait - w.Host.Now().Sub(w.Began) }

// stand waits until it is time to try (nil), or a lock is handed over, or the waiting ends.
func (w *Waiter) stand(alarm *time.Timer, bound <-chan time.Time) (Attempt, error) {
	turn := w.turn
	for {
		var news <-chan struct{}
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
			w.due = 0
		case <-turn:
			turn = nil
		case <-news:
			w.due = 0
		case <-w.nudged:
		case <-alarm.C:
		case <-bound:
			return w.stop(nil)
		case <-w.Context.Done():
			return w.stop(fault.EndOf(w.Context))
		case <-w.Host.Closing():
			return w.stop(fault.ErrClosed)
		}
	}
}

// look says how long the first in the line has to wait until it tries, and what would be news
// meanwhile.
func (w *Waiter) look() (wait time.Duration, news <-chan struct{}) {
	holder, yields, watch := w.Lines.ahead(w)
	if holder != nil {
		if left := holder.Left(); left > 0 {
			return left, nil // until then it is handed over, or extended
		}
		w.Lines.forget(w, holder)
	}
	if watch != nil && (w.last == nil || w.outlook.Taken) && !w.selfWoken {
		news = watch.news // where nobody holds it, the news would be of our own tries
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
	return nil, &Error{last, w.tries, w.Host.Now().Sub(w.Began), end}
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
	waited := w.Host.Now().Sub(w.Began)
	switch end := w.Context.Err(); {
	case end == nil && w.tries <= 1:
		return err
	case end == nil:
		return &Error{err, w.tries, waited, nil}
	case w.last != nil:
		return &Error{w.last, w.tries, waited, fault.EndOf(w.Context)}
	case errors.Is(err, end):
		return err
	default: // it has ended since the nodes had said no
		return &Error{err, w.tries, waited, fault.EndOf(w.Context)}
	}
}

// plan says when to try again after a try that has failed.
func (w *Waiter) plan(try Try) {
	token := try.Holder()
	watch, local, missed := w.Lines.failed(w, token, w.last)
	w.selfWoken = try.SelfWoken()
	now := w.Host.Now()
	if token != w.seen {
		w.seen, w.polls = token, 0
	}
	switch {
	case missed || local:
		w.due = 0 // a lock of this Locker: see look
	case !w.outlook.Taken:
		w.due = now.Add(w.poll())
	case token == "" || watch.found(try):
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
}

// poll is the pause to the next try if nothing is announced before.
func (w *Waiter) poll() time.Duration {
	w.polls++
	return w.Options.backoff(w.Host, w.polls-1)
}

// An Error is an acquire that waited in vain: what was wrong at the last try, and what ended the
// waiting if that was not an option.
type Error struct {
	Last   error
	Tries  int
	Waited time.Duration
	End    error
}

func (e *Error) Error() string {
	tries := "1 try"
	if e.Tries != 1 {
		tries = fmt.Sprintf("%d tries", e.Tries)
	}
	text := fmt.Sprintf("%v (%s in %v)", e.Last, tries, e.Waited.Round(time.Millisecond))
	if e.End != nil {
		text += ": " + e.End.Error()
	}
	return text
}

// Unwrap makes the error match both.
func (e *Error) Unwrap() []error {
	if e.End == nil {
		return []error{e.Last}
	}
	return []error{e.Last, e.End}
}
