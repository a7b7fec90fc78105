package redlock

import (
	"container/list"
	"context"
	"errors"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A waiter is an Acquire that has to wait.
type waiter struct {
	locker  *Locker
	ctx     context.Context //nolint:containedctx // it is one call
	key     string
	options *acquireOptions
	turn    chan struct{} // closed when it is the first in its line
	gift    chan *Lock    // what it was promised: a hand-over under way, or nil if that came to nothing
	nudged  chan struct{} // something has changed that it should look at

	// Its own.
	began  clockdrift.Instant
	outage clockdrift.Instant // since when no quorum was to be had; 0: it was, the last time
	tries  int
	polls  int  // since the holder was last seen to change
	splits int  // tries in a row that nobody may have won
	echoes bool // what is announced is that the last try's own keys are gone
	seen   string
	last   error              // of the last try that was decided
	due    clockdrift.Instant // when to try next, if nothing happens before
	trusts bool               // that try only looks whether an announcement was lost
	looks  int                // such tries

	// Guarded by queues.mu.
	queue  *queue
	place  *list.Element
	state  waiterState
	missed bool // a lock on the key was released while it tried
}

// A waiterState says what a waiter can take.
type waiterState uint8

const (
	parked   waiterState = iota // a gift
	trying                      // nothing: it asks the nodes itself
	promised                    // the gift that is on its way
)

// nudge makes the waiter look at what has changed.
func (w *waiter) nudge() {
	select {
	case w.nudged <- struct{}{}:
	default:
	}
}

// wait stands in line and tries until the lock is had or the waiting ends. It begins
// with a try that has failed, or with nil.
func (w *waiter) wait(failed *Lock) (lock *Lock, err error) {
	l := w.locker
	w.turn, w.gift, w.nudged = make(chan struct{}), make(chan *Lock, 1), make(chan struct{}, 1)
	l.queues.join(w)
	defer func() { l.queues.leave(w, lock) }()
	if failed != nil {
		select {
		case <-w.turn: // nobody is before us, who would know better by now
			w.plan(failed.last(), w.last)
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
			attempt, err = w.try()
		} else {
			var bound clockdrift.Instant
			err = l.await(w.ctx, attempt, &bound)
		}
		if err == nil {
			return attempt, nil
		}
		if attempt == nil || w.over(err) {
			return nil, w.giveUp(err)
		}
		w.plan(attempt.last(), err)
	}
}

// try asks the nodes for the lock. When many waiters are woken at once they take turns,
// or their tries would wait for each other until they run out of time.
func (w *waiter) try() (attempt *Lock, err error) {
	l := w.locker
	if w.trusts && w.due != 0 {
		w.looks++
	}
	w.trusts = false
	select {
	case l.tries <- struct{}{}:
		defer func() { <-l.tries }()
	case <-w.ctx.Done():
	case <-l.closing:
	}
	var bound clockdrift.Instant
	if attempt, err = l.try(w.ctx, w.key, w.options, true, &bound); err != nil && attempt != nil {
		l.hearOut(w.ctx, attempt.last())
	}
	return attempt, err
}

// hearOut waits a moment for those who have not answered yet when too many have said no:
// what to do next depends on who has the key.
func (l *Locker) hearOut(ctx context.Context, op *operation) {
	if op.full == nil {
		return
	}
	timer := time.NewTimer(max(4*l.trip(), 2*time.Millisecond))
	defer timer.Stop()
	select {
	case <-op.full:
	case <-timer.C:
	case <-ctx.Done():
	case <-l.closing:
	}
}

// left is how much of the longest wait is left.
func (w *waiter) left() time.Duration { return w.options.maxWait - w.locker.clock.Now().Sub(w.began) }

// stand waits until it is time to try (nil), or a lock is handed over, or the waiting
// ends.
func (w *waiter) stand(alarm *time.Timer, bound <-chan time.Time) (*Lock, error) {
	qs := &w.locker.queues
	turn := w.turn
	for {
		var news <-chan struct{}
		if turn == nil {
			wait, heard := w.look()
			if wait <= 0 {
				if qs.leap(w) {
					return nil, nil
				}
				wait = math.MaxInt64 // a lock is on its way here
			}
			alarm.Reset(wait)
			news = heard
		}
		select {
		case gift := <-w.gift:
			if gift != nil {
				return gift, nil
			}
			qs.park(w)
			w.due = 0
		case <-turn:
			turn = nil
		case <-news:
			w.due = 0
		case <-w.nudged:
		case <-alarm.C:
		case <-bound:
			return w.stop(nil)
		case <-w.ctx.Done():
			return w.stop(endOf(w.ctx))
		case <-w.locker.closing:
			return w.stop(ErrClosed)
		}
	}
}

// look says how long the first in the line has to wait until it tries, and what would be
// news meanwhile.
func (w *waiter) look() (wait time.Duration, news <-chan struct{}) {
	qs := &w.locker.queues
	holder, rest, vigil := qs.ahead(w)
	if holder != nil {
		if left := holder.left(); left > 0 {
			return left, nil // until then it is handed over, or extended
		}
		qs.forget(w, holder)
	}
	if vigil != nil && (w.last == nil || taken(w.last)) && !w.echoes {
		news = vigil.news // where nobody holds it, the news would be of our own tries
	}
	return max(w.due, rest).Sub(w.locker.clock.Now()), news
}

// stop ends the waiting, unless a lock is on its way here: that one is taken, and given
// back if it has to be.
func (w *waiter) stop(end error) (*Lock, error) {
	if !w.locker.queues.refuse(w) {
		if gift := <-w.gift; gift != nil {
			return gift, nil
		}
	}
	last := w.last
	if last == nil {
		last = w.locker.queues.said(w)
	}
	return nil, &waitError{last, w.tries, w.locker.clock.Now().Sub(w.began), end}
}

// over notes what came of a try, and reports whether that ends the waiting.
func (w *waiter) over(err error) bool {
	now := w.locker.clock.Now()
	w.tries++
	if w.ctx.Err() != nil {
		return true
	}
	w.last = err
	held := taken(err) || waitsForQuarantine(err)
	switch {
	case held:
		w.outage = 0
	case w.outage == 0:
		w.outage = now
	}
	return !worthWaiting(err) || w.tries-w.looks > w.options.retries || w.left() <= 0 ||
		!held && now.Sub(w.outage) >= w.options.outage()
}

// giveUp words the end of the waiting by a try.
func (w *waiter) giveUp(err error) error {
	waited := w.locker.clock.Now().Sub(w.began)
	switch end := w.ctx.Err(); {
	case end == nil && w.tries <= 1:
		return err
	case end == nil:
		return &waitError{err, w.tries, waited, nil}
	case w.last != nil:
		return &waitError{w.last, w.tries, waited, endOf(w.ctx)}
	case errors.Is(err, end):
		return err
	default: // it has ended since the nodes had said no
		return &waitError{err, w.tries, waited, endOf(w.ctx)}
	}
}

// plan says when to try again after a try that has failed.
func (w *waiter) plan(try *operation, err error) {
	l := w.locker
	token := try.holder()
	vigil, local, missed := l.queues.failed(w, token, err)
	w.echoes = try.everywhere()
	now := l.clock.Now()
	if token != w.seen {
		w.seen, w.polls = token, 0
	}
	switch {
	case missed || local:
		w.due = 0 // a lock of this Locker: see look
	case !taken(err):
		w.due = now.Add(w.poll())
	case token == "" || vigil.found(try):
		w.due = now.Add(l.scatter(w.splits))
		w.splits++
	default:
		w.splits = 0
		w.due = now.Add(w.poll())
		switch expires := try.frees(); {
		case expires == 0:
		case expires < w.due:
			w.due = expires
		case marked(token) && vigil.quorate():
			w.due = min(expires, trust(now))
			w.trusts = w.due < expires
		}
	}
}

// poll is the pause to the next try if nothing is heard before.
func (w *waiter) poll() time.Duration {
	w.polls++
	return w.options.backoff(w.polls - 1)
}
