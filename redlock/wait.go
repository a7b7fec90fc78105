package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// waiter makes the waiter of an Acquire that began at began.
func (l *Locker) waiter(ctx context.Context, key string, o *acquireOptions, began clockdrift.Instant) *waiting.Waiter {
	return &waiting.Waiter{
		Host: host{l}, Lines: &l.lines, Context: ctx, Key: key, Began: began, Call: o,
		Options: waiting.Options{
			MaxWait: o.maxWait, Retries: o.retries,
			BackoffMin: o.backoffMin, BackoffMax: o.backoffMax, Outage: o.outage(),
		},
	}
}

// wait waits for the lock, after a failed attempt, or nil.
func wait(w *waiting.Waiter, tried *Lock) (*Lock, error) {
	var before waiting.Attempt
	if tried != nil {
		before = attempt{tried}
	}
	had, err := w.Wait(before)
	if err != nil {
		return nil, err
	}
	return had.(attempt).Lock, nil
}

// host is the Locker as its waiters see it.
type host struct{ *Locker }

func (h host) Now() clockdrift.Instant                  { return h.clock.Now() }
func (h host) Jitter(bound time.Duration) time.Duration { return h.board.Jitter(bound) }
func (h host) Closing() <-chan struct{}                 { return h.closing }
func (h host) Size() (nodes, quorum int)                { return len(h.board.Nodes), h.board.Quorum }
func (h host) Trip() time.Duration                      { return h.board.Trip() }

// Others reports whether another Locker was subscribed at any node at its last announcement.
func (h host) Others() bool {
	for _, n := range h.board.Nodes {
		if n.Others() {
			return true
		}
	}
	return false
}

// Listen subscribes w to the announcements of a key.
func (h host) Listen(key string, w waiting.Listener) {
	for _, n := range h.board.Nodes {
		n.Listen(h.channel(key), w)
	}
}

// Unlisten ends that.
func (h host) Unlisten(key string, w waiting.Listener) {
	for _, n := range h.board.Nodes {
		n.Unlisten(h.channel(key), w)
	}
}

func (h host) channel(key string) string { return protocol.WakeChannel + h.options.prefix + key }

// HolderOf returns the lock with a generated token, if it is held.
func (h host) HolderOf(token string) waiting.Holder {
	if lock := h.holds.with(token); lock != nil && lock.Valid() {
		return attempt{lock}
	}
	return nil
}

// Try asks the nodes for the lock. Waiters that are woken at once take turns, or their tries would
// wait for each other until they time out.
func (h host) Try(w *waiting.Waiter) (waiting.Attempt, error) {
	select {
	case h.tries <- struct{}{}:
		defer func() { <-h.tries }()
	case <-w.Context.Done():
	case <-h.closing:
	}
	var bound clockdrift.Instant
	lock, err := h.try(w.Context, w.Key, w.Call.(*acquireOptions), true, &bound)
	if lock == nil {
		return nil, err
	}
	if err != nil {
		h.awaitMore(w.Context, lock.last())
	}
	return attempt{lock}, err
}

// Await waits for the result of an attempt that was handed over.
func (h host) Await(ctx context.Context, a waiting.Attempt) error {
	var bound clockdrift.Instant
	return h.await(ctx, a.(attempt).Lock, &bound)
}

// Outlook says what a failed try means for waiters.
func (h host) Outlook(err error) waiting.Outlook {
	return waiting.Outlook{Taken: taken(err), Quorum: taken(err) || waitsForQuarantine(err), Waiting: worthWaiting(err)}
}

// attempt is a Lock as waiters see it.
type attempt struct{ *Lock }

func (a attempt) Left() time.Duration { return a.left() }
func (a attempt) Last() waiting.Try   { return a.last() }

// handOver gives the lock's key to the next waiter, if one can take it, and returns the release
// that the hand-over replaces, or nil.
func (l *Lock) handOver() *quorum.Operation {
	w := l.locker.lines.Next(l.attempt.Key)
	if w == nil {
		return nil
	}
	if !l.locker.board.HandsOver() {
		w.Give(nil)
		return nil
	}
	next, err := l.locker.newLock(w.Context, l.attempt.Key, w.Call.(*acquireOptions), false)
	if err != nil { // the waiter's own token is spent, which its own try reports
		w.Give(nil)
		return nil
	}
	op := &next.acquire
	op.Op, op.Old = next.attempt.Kind.Inherit, l.acquire.Token
	op.Encode(&next.memory)
	op.Propose()
	next.attempt.Loud = true
	release := l.attempt.ToRelease(&l.release)
	if op.HandOver(release) {
		w.Give(attempt{next})
	} else { // the Locker is being closed
		w.Give(nil)
	}
	return release
}

// taken reports whether a try has failed because others have the key or some of the votes.
func taken(err error) bool { return errors.Is(err, ErrTaken) || errors.Is(err, ErrContended) }

// worthWaiting reports whether a later try may do better by itself: not if the nodes that refuse
// for a lasting reason leave no quorum.
func worthWaiting(err error) bool {
	switch {
	case errors.Is(err, ErrClosed):
		return false
	case taken(err), errors.Is(err, ErrExpired):
		return true
	}
	var quorum *QuorumError
	if !errors.As(err, &quorum) {
		return false
	}
	refusals := 0
	for _, vote := range quorum.Votes {
		if fault.Lasting(vote.Err) {
			refusals++
		}
	}
	return len(quorum.Votes)-refusals >= quorum.Need
}

// waitsForQuarantine reports whether a quorum answers, and will vote after the quarantine of some.
func waitsForQuarantine(err error) bool {
	var quorum *QuorumError
	if !errors.As(err, &quorum) {
		return false
	}
	there := 0
	for _, vote := range quorum.Votes {
		if vote.Err == nil && vote.Answer != Pending || errors.Is(vote.Err, ErrQuarantine) {
			there++
		}
	}
	return there >= quorum.Need
}

// cut adds to an attempt's error the end of its context or of the Locker.
func (l *Locker) cut(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", err, fault.EndOf(ctx))
	case l.closed():
		return fmt.Errorf("%w: %w", err, ErrClosed)
	}
	return err
}
