package redlock

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// WithReentry lets an Acquire under the context of a lock that has the key return a view of that
// hold, where it would be [ErrDeadlock]. It goes by contexts alone, not by goroutines or tokens. A
// [Lock] covers a [SharedLock] as well, but not the other way round. No node is asked. The view's
// Context descends from the caller's; its Release and Abandon end that context alone, and the
// hold's own Release ends all views. All else is the hold's. A longer TTL than the hold's, or a
// renewal where it has none, is an [OptionError].
func WithReentry() LeaseOption {
	return leaseOption(func(o *settings) { o.reenters = true })
}

// A view is a hold that was acquired once more under its own context.
type view struct {
	ctx      *heldContext // handed out
	unlink   func() bool  // from the hold's context
	released atomic.Bool
}

// covered reports whether who has the lock held may do all that the acquire is for.
func (r *request) covered(held *lease) bool {
	has, wants := held.hold.Kind, r.kind.Kind
	if wants == nil || has == wants {
		return wants != nil
	}
	return has.Joins && wants.Joins || plain(has) && (wants.Joins || plain(wants))
}

// plain reports whether a lock of the kind has the key itself, alone: whether its
// waiters have tickets does not matter to the holder.
func plain(k *protocol.Kind) bool { return !k.Joins && k.Many == nil && k.KeyName == "" }

// enter returns a view, as a lock of the kind that the caller under ctx asks for, of the hold that
// ctx carries.
func enter[L carried](ctx context.Context, r request, as func(handle) L) (lock L, err error) { //nolint:contextcheck // a view ends with its hold as well, whose context is its own
	l := r.within
	switch {
	case r.ttl > l.hold.Acquire.Lease:
		return lock, &OptionError{"TTL", fmt.Sprintf("%v is longer than %v, for which the lock on %q that this context holds was acquired: Extend that one", r.ttl, l.hold.Acquire.Lease, l.hold.Key)}
	case r.renews && l.hold.Renewal == nil:
		return lock, &OptionError{"Renewal", fmt.Sprintf("the lock on %q that this context holds is not renewed: acquire that one WithRenewal", l.hold.Key)}
	case ctx.Err() != nil:
		return lock, &fault.StateError{Op: "acquire", Key: l.hold.Key, Why: fault.EndOf(ctx)}
	}
	v := &view{}
	lock = as(handle{l, v})
	v.ctx = under(ctx, lock)
	hold := l.Context()
	v.unlink = context.AfterFunc(hold, func() { v.ctx.cancel(context.Cause(hold)) }) //nolint:contextcheck // likewise
	return lock, nil
}

// release ends the view's context. The error is why the hold had ended before, as that of
// [quorum.Hold.GiveUp].
func (v *view) release(what string, hold *lease) error {
	if v.released.Swap(true) {
		return &fault.StateError{Op: what, Key: hold.hold.Key, Why: ErrReleased}
	}
	v.unlink()
	v.ctx.cancel(ErrReleased)
	if ended, _ := hold.hold.Over(); ended != nil {
		return &fault.StateError{Op: what, Key: hold.hold.Key, Why: ended}
	}
	return nil
}
