package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// Extend prolongs the lease to ttl from now, and never shortens it. Nodes that have
// lost the key get it again. It counts only if a quorum agrees before the lease that
// runs has ended; an Extend that fails before that changes nothing, and may be tried
// again until then. What it has set at some nodes all the same is deleted when the lock is
// lost, unless the token is the user's own (see [WithToken]).
//
// A lease never passes the longest hold of [WithMaxHold]: one that would is cut to what is left
// of that. If the lease already runs to its end, the error is an [OptionError] for "MaxHold".
//
// The error matches [ErrLost] if the lock is lost, or another token has its key at so
// many nodes that it will be; [ErrNoQuorum] if too few nodes answered; [ErrReleased],
// [ErrClosed] or [ErrOption]; and the context's error if ctx ended first.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	c := &l.claim
	if err := c.locker.checkLease(ttl); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &stateError{"extend", c.key, endOf(ctx)}
	}
	op, err := l.prepareExtend(ttl)
	if err != nil {
		return err
	}

	if !op.ask(c.locker.nodes, c.locker.quorum) {
		return &stateError{"extend", c.key, ErrClosed}
	}
	op.await(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case op.outcome == carried:
		return nil
	case l.ended != nil:
		return op.fail(l.ended)
	case op.outcome == dropped:
		return fmt.Errorf("%w: %w", op.fail(op.blame()), endOf(ctx))
	}
	return op.fail(lostIfHeld(op.blame()))
}

// prepareExtend makes the operation that asks for ttl, or for what the longest hold leaves of
// it.
func (l *Lock) prepareExtend(ttl time.Duration) (*operation, error) {
	c := &l.claim
	now := l.observe()
	defer c.mu.Unlock()
	if l.ended != nil {
		return nil, &stateError{"extend", c.key, l.ended}
	}
	if left := l.ends.Sub(now).Truncate(time.Millisecond); ttl > left {
		if left < MinTTL || clockdrift.Deadline(now, left, c.locker.options.drift) <= l.until {
			return nil, &OptionError{"MaxHold", fmt.Sprintf("the lease of %q runs to the end of the longest hold of %v already: release the lock and acquire it anew, or give it a longer MaxHold", c.key, l.maxHold)}
		}
		ttl = left
	}
	c.ttl = max(c.ttl, ttl)
	return l.extension(extend, ttl), nil
}

// extension makes the operation, by either task, that prolongs the lease to ttl. claim.mu is
// held.
func (l *Lock) extension(t *task, ttl time.Duration) *operation {
	c := &l.claim
	op := &operation{task: t, claim: c, lock: l, ttl: ttl, ends: l.until}
	w := new(words)
	op.say(w, scripts.Hold.One(w.args[:], c.keyArg, c.tokenArg, c.locker.milliseconds(ttl)))
	if l.fence != 0 {
		op.carries(l.fence)
	}
	return op
}

// lostIfHeld says what it means for a holder that somebody else has the key.
func lostIfHeld(reason error) error {
	if reason == ErrTaken { //nolint:errorlint // blame returns the sentinel itself
		return ErrLost
	}
	return reason
}

// prolong takes the deciding vote of an extension. claim.mu is held, as it is when
// the deadline passes: one of the two comes first.
func prolong(op *operation, now clockdrift.Instant) {
	l := op.lock
	l.check(now)
	if l.ended != nil {
		// Somebody else may have held and released the key since the deadline.
		// After a release there is nothing to do: it stands behind us in the lanes.
		op.clears = l.ended == ErrLost //nolint:errorlint // ended holds the sentinel itself
		if op.outcome == carried {
			op.outcome = failed
		}
		return
	}
	if op.outcome == carried {
		l.until = max(l.until, min(op.deadline(), l.ends))
	} else {
		l.excess = true
	}
}

// renewed takes the deciding vote of a renewal. claim.mu is held.
func renewed(op *operation, now clockdrift.Instant) {
	prolong(op, now)
	op.lock.renewal.decided(op, now)
}
