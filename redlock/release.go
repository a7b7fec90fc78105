package redlock

import (
	"context"
	"fmt"
)

// Release gives the key back. It first ends the lock's context, with the cause
// [ErrReleased], and then deletes the key at all nodes. It waits until a quorum has
// said that the token is not there any more, for one node time-out at the most, or
// until ctx ends. The rest, and what goes wrong at a minority, is done in the
// background, until it is done or [Locker.Close] ends it. Give it a context that has
// not ended:
//
//	defer lock.Release(context.WithoutCancel(ctx))
//
// The error matches [ErrLost] if the lock was lost before: its lease had ended, or no
// node had its token any more. Then the work may not have been protected to its end.
// It matches [ErrNoQuorum] if too few nodes answered: the key goes away by itself, by
// the TTL at the latest; [ErrReleased] the second time; [ErrClosed]; and the
// context's error if ctx ended first. Of a lock that was lost it matches [ErrLost] besides.
//
// A lock that was lost and had a token of the user's own (see [WithToken]) is left alone:
// nothing is sent, for the key may belong to a retry that has the same token.
func (l *Lock) Release(ctx context.Context) error {
	c := &l.claim
	l.observe()
	if l.given || l.ended == ErrClosed { //nolint:errorlint // ended holds the sentinel itself
		err := &stateError{"release", c.key, l.ended}
		if l.given {
			err.why = ErrReleased
		}
		c.mu.Unlock()
		return err
	}
	l.given = true
	lost := l.ended != nil
	l.end(ErrReleased)
	c.mu.Unlock()
	if lost && c.own {
		c.locker.holds.remove(l)
		return &stateError{"release", c.key, ErrLost}
	}

	op := l.giveBack(true)
	select {
	case <-op.done:
	case <-ctx.Done():
		end := endOf(ctx)
		if lost {
			end = fmt.Errorf("%w: %w", ErrLost, end)
		}
		return fmt.Errorf("redlock: release %q goes on in the background: %w", c.key, end)
	}
	c.locker.queues.hurry(c.key)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case op.outcome != carried && lost:
		return op.fail(fmt.Errorf("%w, and %w to delete what is left of it", ErrLost, ErrNoQuorum))
	case op.outcome != carried:
		return op.fail(ErrNoQuorum)
	case lost || !op.deleted() && !op.doubt:
		return op.fail(ErrLost)
	}
	return nil
}

// quit ends the hold for [Locker.Close].
func (l *Lock) quit() {
	l.observe()
	over := l.ended != nil
	l.end(ErrClosed)
	l.claim.mu.Unlock()
	if !over {
		l.giveBack(false)
	}
}

// giveBack hands the key over to the next waiter, if it may, or asks all nodes to delete
// it.
func (l *Lock) giveBack(handOver bool) *operation {
	c := &l.claim
	c.locker.holds.remove(l)
	if c.own {
		now := c.locker.clock.Now()
		c.locker.spent.add(c.token, now.Add(c.longest()), now)
	}
	if handOver {
		if op := l.handOver(); op != nil {
			return op
		}
	}
	op := c.toRelease(&l.release)
	op.ask(c.locker.nodes, c.locker.quorum)
	return op
}

// deleted reports whether a node has deleted the key. claim.mu is held.
func (op *operation) deleted() bool {
	for i := range op.requests {
		if op.requests[i].answer == Granted {
			return true
		}
	}
	return false
}
