package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Release releases the lock. It first ends the lock's context, with the cause [ErrReleased],
// and then deletes the key at all nodes. It waits until a quorum has confirmed that the token
// is gone, for one node time-out at the most, or until ctx ends. The other nodes, and failures
// at a minority, are handled in the background, until they are done or [Locker.Close] ends it.
// Give it a context that has not ended:
//
//	defer lock.Release(context.WithoutCancel(ctx))
//
// The error matches [ErrLost] if the lock was lost before: its lease had ended, or no node had
// its token any more. Then the work may not have been protected to its end. It matches
// [ErrNoQuorum] if too few nodes answered (the key expires by the TTL at the latest);
// [ErrReleased] the second time; [ErrClosed]; and the context's error if ctx ended first. For a
// lost lock it matches [ErrLost] besides.
//
// For a lost lock with a token of the user's own (see [WithToken]) nothing is sent: the key may
// belong to a retry that has the same token.
func (l *Lock) Release(ctx context.Context) error {
	a := &l.attempt
	lost, err := l.giveUp("release")
	if err != nil {
		return err
	}
	if lost && a.Own {
		l.locker.holds.remove(l)
		return &fault.StateError{Op: "release", Key: a.Key, Why: ErrLost}
	}

	op := l.giveBack(true)
	select {
	case <-op.Done:
	case <-ctx.Done():
		end := fault.EndOf(ctx)
		if lost {
			end = fmt.Errorf("%w: %w", ErrLost, end)
		}
		return fmt.Errorf("redlock: release %q goes on in the background: %w", a.Key, end)
	}
	l.locker.lines.Hurry(a.Key)
	a.Mu.Lock()
	defer a.Mu.Unlock()
	switch {
	case op.Outcome != quorum.Carried && lost:
		return failure(op, fmt.Errorf("%w, and %w to delete what is left of it", ErrLost, ErrNoQuorum))
	case op.Outcome != quorum.Carried:
		return failure(op, ErrNoQuorum)
	case lost || !op.Deleted():
		return failure(op, ErrLost)
	}
	return nil
}

// Abandon ends the hold, as Release does, and leaves the key to its TTL: until then nobody else
// gets it. It is for a job that must not run again soon after it has succeeded: take a TTL of
// that length. Nothing is sent; an extension under way may still prolong the key at the nodes.
//
// A token of the user's own (see [WithToken]) is spent for this Locker only: another Locker gets
// the key with it.
//
// The error matches [ErrLost] if the lock was lost before, [ErrReleased] if it was released
// or abandoned before, or [ErrClosed].
func (l *Lock) Abandon() error {
	a := &l.attempt
	lost, err := l.giveUp("abandon")
	if err != nil {
		return err
	}
	l.locker.holds.remove(l)
	if lost {
		return &fault.StateError{Op: "abandon", Key: a.Key, Why: ErrLost}
	}
	a.Spend()
	return nil
}

// giveUp ends the hold for its user, once.
func (l *Lock) giveUp(what string) (lost bool, err error) {
	l.observe()
	defer l.attempt.Mu.Unlock()
	switch {
	case l.given:
		return false, &fault.StateError{Op: what, Key: l.attempt.Key, Why: ErrReleased}
	case l.ended == ErrClosed: //nolint:errorlint // ended holds the sentinel itself
		return false, &fault.StateError{Op: what, Key: l.attempt.Key, Why: ErrClosed}
	}
	l.given = true
	lost = l.ended != nil
	l.end(ErrReleased)
	return lost, nil
}

// quit ends the hold for [Locker.Close].
func (l *Lock) quit() {
	l.observe()
	over := l.ended != nil
	l.end(ErrClosed)
	l.attempt.Mu.Unlock()
	if !over {
		l.giveBack(false)
	}
}

// giveBack hands the key over to the next waiter, if it may, or asks all nodes to delete it.
func (l *Lock) giveBack(handOver bool) *quorum.Operation {
	a := &l.attempt
	l.locker.holds.remove(l)
	a.Spend()
	if handOver {
		if op := l.handOver(); op != nil {
			return op
		}
	}
	op := a.ToRelease(&l.release)
	op.AskAll()
	return op
}
