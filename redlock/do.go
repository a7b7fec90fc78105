package redlock

import (
	"context"
	"errors"
	"fmt"
)

// Do takes the lock on key, runs fn under the lock's context, renews the lock while fn runs (see
// [WithRenewal]), and releases it. It waits for the lock as [Locker.Acquire] does; in fn,
// [FromContext] returns it. Under fn's context the same key is refused with [ErrDeadlock].
//
// The error is that of the Acquire, and then fn was not called. Otherwise it matches fn's
// error, and [ErrLost], [ErrNoQuorum] or both as [Lock.Release] returns them. A lock that was
// lost while fn ran is an error even if fn returned nil, because fn may not have been alone.
// A panic in fn goes on after the release.
func (l *Locker) Do(ctx context.Context, key string, fn func(ctx context.Context) error, options ...AcquireOption) error {
	lock, err := l.Acquire(ctx, key, append([]AcquireOption{WithRenewal()}, options...)...)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit
			_ = lock.Release(context.WithoutCancel(ctx)) // there is nobody to tell
		}
	}()
	held := lock.Context()
	err = fn(held) //nolint:contextcheck // it descends from ctx
	returned = true
	fate := context.Cause(held) //nolint:contextcheck // before the release, which is an end as well
	released := lock.Release(context.WithoutCancel(ctx))
	switch {
	case errors.Is(fate, ErrLost):
		if errors.Is(err, fate) { // the function has returned the context's cause
			fate, err = err, nil
		}
		loss := fmt.Errorf("redlock: do %q: the function was not alone to its end: %w", key, fate)
		if !errors.Is(released, ErrNoQuorum) {
			released = nil // loss says the same
		}
		released = errors.Join(loss, released)
	case errors.Is(released, ErrReleased): // by the function itself
		released = nil
	}
	return errors.Join(err, released)
}
