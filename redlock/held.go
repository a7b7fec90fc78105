package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Held asks the nodes whether the key still holds this lock's token. It is true if a quorum says
// yes, and false if no quorum can any more. For the lease see [Lock.Valid].
//
// The error matches [ErrNoQuorum] if too few nodes answered, [ErrClosed], or the context's error
// if ctx ended first.
func (l *lease) Held(ctx context.Context) (bool, error) {
	a := &l.attempt
	if l.locker.closed() {
		return false, &fault.StateError{Op: "held", Key: a.Key, Why: ErrClosed}
	}
	op := new(quorum.Operation)
	a.Mu.Lock()
	op.Prepare(a, a.Kind.Look, a.Longest)
	a.Mu.Unlock()
	op.Encode(nil)
	op.AskAll()
	op.Await(ctx)
	a.Mu.Lock()
	defer a.Mu.Unlock()
	switch reason := op.FailureReason(); {
	case op.Outcome == quorum.Carried:
		return true, nil
	case op.Outcome == quorum.Dropped:
		return false, fmt.Errorf("%w: %w", failure(op, reason), fault.EndOf(ctx))
	case reason == ErrTaken: //nolint:errorlint // FailureReason returns the sentinel itself
		return false, nil
	default:
		return false, failure(op, reason)
	}
}
