package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Extend prolongs the lease: see handle.Extend.
func (l *lease) Extend(ctx context.Context, ttl time.Duration) error {
	op, err := l.extend(ctx, ttl)
	if l.told != nil {
		until := l.Until()
		l.attempt.Mu.Lock()
		e := l.extended(op, err)
		l.attempt.Mu.Unlock()
		e.Until = until
		l.told.extends(e)
	}
	return err
}

// extend prolongs the lease. The operation is nil if no node was asked.
func (l *lease) extend(ctx context.Context, ttl time.Duration) (*quorum.Operation, error) {
	a := &l.attempt
	if err := l.locker.checkLease(ttl); err != nil {
		return nil, err
	}
	ttl = protocol.RoundUp(ttl)
	if ctx.Err() != nil {
		return nil, &fault.StateError{Op: "extend", Key: a.Key, Why: fault.EndOf(ctx)}
	}
	op, err := l.prepareExtend(ttl)
	if err != nil {
		return nil, err
	}

	if !op.AskAll() {
		return nil, &fault.StateError{Op: "extend", Key: a.Key, Why: ErrClosed}
	}
	op.Await(ctx)
	a.Mu.Lock()
	defer a.Mu.Unlock()
	switch {
	case op.Outcome == quorum.Carried:
		return op, nil
	case l.ended != nil:
		return op, failure(op, l.ended)
	case op.Outcome == quorum.Dropped:
		return op, fmt.Errorf("%w: %w", failure(op, op.FailureReason()), fault.EndOf(ctx))
	}
	return op, failure(op, notProlonged(op))
}

// prepareExtend makes the operation that asks for ttl, cut to the longest hold.
func (l *lease) prepareExtend(ttl time.Duration) (*quorum.Operation, error) {
	a := &l.attempt
	now := l.observe()
	defer a.Mu.Unlock()
	if l.ended != nil {
		return nil, &fault.StateError{Op: "extend", Key: a.Key, Why: l.ended}
	}
	if left := l.ends.Sub(now).Truncate(time.Millisecond); ttl > left {
		if left < MinTTL || clockdrift.Deadline(now, left, l.locker.options.drift) <= l.until {
			return nil, &OptionError{"MaxHold", fmt.Sprintf("the lease of %q runs to the end of the longest hold of %v already: release the lock and acquire it anew, or give it a longer MaxHold", a.Key, l.maxHold)}
		}
		ttl = left
	}
	a.Longest = max(a.Longest, ttl)
	return l.extension(a.Kind.Extend, prolong, ttl), nil
}

// extension makes the operation, by what, that prolongs the lease to ttl. attempt.Mu is held.
func (l *lease) extension(what *protocol.Op, decided func(*quorum.Operation, clockdrift.Instant), ttl time.Duration) *quorum.Operation {
	op := &quorum.Operation{Owner: l, Decided: decided}
	op.Prepare(&l.attempt, what, ttl)
	op.Ends = l.until
	op.Encode(nil)
	if l.fence != 0 {
		op.CarryAlong(l.fence)
	}
	return op
}

// notProlonged is why an extension has failed: the lock is lost once other tokens have its key at so
// many nodes that the rest are no quorum. attempt.Mu is held.
func notProlonged(op *quorum.Operation) error {
	switch reason := op.FailureReason(); {
	case reason != ErrTaken: //nolint:errorlint // FailureReason returns the sentinel itself
		return reason
	case op.Beaten():
		return ErrLost
	}
	return ErrNoQuorum
}

// prolong takes the deciding vote of an extension. attempt.Mu is held, as in [Lock.expire]: one of
// the two comes first.
func prolong(op *quorum.Operation, now clockdrift.Instant) {
	l := op.Owner.(*lease)
	l.check(now)
	if l.ended != nil {
		// Somebody else may have held and released the key since the deadline. A release needs no
		// clean-up: it stands behind this extension in the key's queues.
		op.Clears = l.ended == ErrLost //nolint:errorlint // ended holds the sentinel itself
		if op.Outcome == quorum.Carried {
			op.Outcome = quorum.Failed
		}
		return
	}
	if op.Outcome == quorum.Carried {
		l.until = max(l.until, min(op.Deadline(), l.ends))
		l.due.Store(int64(l.until))
	} else {
		l.excess = true
	}
}

// renewed takes the deciding vote of a renewal. attempt.Mu is held.
func renewed(op *quorum.Operation, now clockdrift.Instant) {
	prolong(op, now)
	op.Owner.(*lease).renewal.decided(op, now)
}
