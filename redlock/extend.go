package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Extend prolongs the lease to ttl from now, and never shortens it. The ttl is bounded and rounded
// as that of [WithTTL], and cut to what [WithMaxHold] leaves. Nodes that have lost the key get it
// again. It counts only if a quorum agrees before the lease ends, and may be repeated. For the
// errors see the table of the package.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	defer runtime.KeepAlive(l) // the lock is not forgotten meanwhile
	op, err := l.extend(ctx, ttl)
	if l.acquisition != nil {
		l.acquisition.extends(l.extended(op, err))
	}
	return err
}

// extend prolongs the lease. The operation is nil if no node was asked.
func (l *lease) extend(ctx context.Context, ttl time.Duration) (*quorum.Operation, error) {
	h := &l.hold
	if err := l.locker.checkLease(ttl); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, &fault.StateError{Op: "extend", Key: h.Key, Why: fault.EndOf(ctx)}
	}
	op, ended := h.ToExtend(protocol.RoundUp(ttl))
	switch {
	case ended != nil:
		return nil, &fault.StateError{Op: "extend", Key: h.Key, Why: ended}
	case op == nil:
		return nil, &OptionError{"MaxHold", fmt.Sprintf("the lease of %q runs to the end of the longest hold of %v already: release the lock and acquire it anew, or give it a longer MaxHold", h.Key, h.MaxHold)}
	case op.AskAll():
		op.Await(ctx, nil)
	}
	return op, fate(op)
}

// Renewed tells the result of a renewal: see [quorum.Keeper].
func (k *keeper) Renewed(op *quorum.Operation) {
	l := (*lease)(k)
	if l.acquisition == nil {
		return
	}
	err := fate(op)
	if ended, _ := l.hold.Over(); err == nil && ended != nil {
		err = failure(op, ended)
	}
	e := l.extended(op, err)
	e.Renewal, e.Attempt = true, int(op.Attempt)
	l.acquisition.extends(e)
}

// Confirm asks the nodes whether the key still has this lock's token: true if a quorum says yes,
// false if none can any more. The error matches [ErrNoQuorum], [ErrClosed], or the context's error.
// For the lease see Valid.
func (l *Lock) Confirm(ctx context.Context) (bool, error) {
	defer runtime.KeepAlive(l) // the lock is not forgotten meanwhile
	if l.locker.closed() {
		return false, &fault.StateError{Op: "confirm", Key: l.hold.Key, Why: ErrClosed}
	}
	op := l.hold.ToLook()
	op.AskAll()
	op.Await(ctx, nil)
	if op.Verdict == kernel.Missed && errors.Is(op.Why(), ErrTaken) {
		return false, nil
	}
	err := fate(op)
	return err == nil, err
}
