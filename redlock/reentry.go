package redlock

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// WithReentry lets an Acquire under the context of a lock that has the key return a view of that
// hold, where it would be [ErrDeadlock]: code that takes a lock can call code that takes the same.
// A [Lock] covers a [SharedLock] as well, but not the other way round.
// No node is asked. The view's Context descends from the caller's; its Release and Abandon end that
// context, and leave the key to the hold, whose own Release ends all views. Fence, Token, Until
// and Votes are the hold's, and Extend extends it.
//
// A view cannot promise more than the hold: a longer TTL, or a renewal where the hold has none, is
// an [OptionError]. Reentry goes by contexts alone, not by goroutines or by [WithToken].
func WithReentry() LeaseOption {
	return leaseOption(func(o *acquireOptions) { o.reenters = true })
}

// A view is a hold that was acquired once more under its own context.
type view struct {
	ctx      *heldContext // handed out
	unlink   func() bool  // from the hold's context
	released atomic.Bool
}

// covered reports whether who has the lock held may do all that the acquire is for.
func (o *acquireOptions) covered(held *lease) bool {
	has, wants := held.attempt.Kind, o.kind.Kind
	if wants == nil || has == wants {
		return wants != nil
	}
	return has.Joins && wants.Joins || plain(has) && (wants.Joins || plain(wants))
}

// plain reports whether a lock of the kind has the key itself, alone: whether those who wait for it
// stand in line does not matter to who has it.
func plain(k *protocol.Kind) bool { return !k.Joins && k.Many == nil && k.Place == "" }

// enter returns a view, as a lock of the kind that the caller under ctx asks for, of the hold that
// ctx carries.
func enter[L carried](ctx context.Context, o *acquireOptions, as func(handle) L) (lock L, err error) { //nolint:contextcheck // a view ends with its hold as well, whose context is its own
	l := o.within
	switch {
	case o.ttl > l.acquire.Lease:
		return lock, &OptionError{"TTL", fmt.Sprintf("%v is longer than %v, for which the lock on %q that this context holds was acquired: Extend that one", o.ttl, l.acquire.Lease, l.attempt.Key)}
	case o.renews && l.renewal == nil:
		return lock, &OptionError{"Renewal", fmt.Sprintf("the lock on %q that this context holds is not renewed: acquire that one WithRenewal", l.attempt.Key)}
	case ctx.Err() != nil:
		return lock, &fault.StateError{Op: "acquire", Key: l.attempt.Key, Why: fault.EndOf(ctx)}
	}
	v := &view{}
	lock = as(handle{l, v})
	v.ctx = under(ctx, lock)
	hold := l.Context()
	v.unlink = context.AfterFunc(hold, func() { v.ctx.cancel(context.Cause(hold)) }) //nolint:contextcheck // likewise
	return lock, nil
}

// release ends the view's context. The error is why the hold had ended before, as that of
// [lease.giveUp].
func (v *view) release(what string, hold *lease) error {
	if v.released.Swap(true) {
		return &fault.StateError{Op: what, Key: hold.attempt.Key, Why: ErrReleased}
	}
	v.unlink()
	v.ctx.cancel(ErrReleased)
	hold.observe()
	defer hold.attempt.Mu.Unlock()
	if hold.ended != nil {
		return &fault.StateError{Op: what, Key: hold.attempt.Key, Why: hold.ended}
	}
	return nil
}
