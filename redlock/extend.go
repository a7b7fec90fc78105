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

// Extend prolongs the lease to ttl from now, and never shortens it. Nodes that have lost the
// key get it again. It counts only if a quorum agrees before the current lease ends; an Extend
// that fails before that changes nothing, and may be repeated until then. Leases that it has
// set at some nodes are deleted when the lock is lost, unless the token is the user's own (see
// [WithToken]).
//
// A lease never passes the longest hold of [WithMaxHold]: a longer one is cut to it. If the
// lease already runs to its end, the error is an [OptionError] for "MaxHold".
//
// The error matches [ErrLost] if the lock is lost, or will be because another token has its
// key at too many nodes; [ErrNoQuorum] if too few nodes answered; [ErrReleased], [ErrClosed] or
// [ErrOption]; and the context's error if ctx ended first.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	a := &l.attempt
	if err := l.locker.checkLease(ttl); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &fault.StateError{Op: "extend", Key: a.Key, Why: fault.EndOf(ctx)}
	}
	op, err := l.prepareExtend(ttl)
	if err != nil {
		return err
	}

	if !op.AskAll() {
		return &fault.StateError{Op: "extend", Key: a.Key, Why: ErrClosed}
	}
	op.Await(ctx)
	a.Mu.Lock()
	defer a.Mu.Unlock()
	switch {
	case op.Outcome == quorum.Carried:
		return nil
	case l.ended != nil:
		return failure(op, l.ended)
	case op.Outcome == quorum.Dropped:
		return fmt.Errorf("%w: %w", failure(op, op.FailureReason()), fault.EndOf(ctx))
	}
	return failure(op, lostIfHeld(op.FailureReason()))
}

// prepareExtend makes the operation that asks for ttl, cut to the longest hold.
func (l *Lock) prepareExtend(ttl time.Duration) (*quorum.Operation, error) {
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
func (l *Lock) extension(what *protocol.Op, decided func(*quorum.Operation, clockdrift.Instant), ttl time.Duration) *quorum.Operation {
	op := &quorum.Operation{Owner: l, Decided: decided}
	op.Prepare(&l.attempt, what, ttl)
	op.Ends = l.until
	op.Encode(nil)
	if l.fence != 0 {
		op.Carry(l.fence)
	}
	return op
}

// lostIfHeld turns ErrTaken, which means a loss to a holder, into ErrLost.
func lostIfHeld(reason error) error {
	if reason == ErrTaken { //nolint:errorlint // FailureReason returns the sentinel itself
		return ErrLost
	}
	return reason
}

// prolong takes the deciding vote of an extension. attempt.Mu is held, as in [Lock.expire]: one of
// the two comes first.
func prolong(op *quorum.Operation, now clockdrift.Instant) {
	l := op.Owner.(*Lock)
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
	} else {
		l.excess = true
	}
}

// renewed takes the deciding vote of a renewal. attempt.Mu is held.
func renewed(op *quorum.Operation, now clockdrift.Instant) {
	prolong(op, now)
	op.Owner.(*Lock).renewal.decided(op, now)
}
