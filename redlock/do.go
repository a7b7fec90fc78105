package redlock

import (
	"context"
	"errors"
	"fmt"
)

// Do takes the lock on key as [Locker.Acquire] does, runs fn under the lock's context, and releases
// the lock. The context of fn also ends with ctx; the lock is held until fn has returned. In fn,
// [FromContext] returns the lock, and the same key is refused with [ErrDeadlock].
//
// The error is that of the Acquire, and then fn was not called. Otherwise it matches fn's error,
// and [ErrLost], [ErrNoQuorum] or both as [Lock.Release] returns them: a lock that was lost while
// fn ran is an error even if fn returned nil, because fn may not have been alone. A panic in fn
// goes on after the release.
func (l *Locker) Do(ctx context.Context, key string, fn func(ctx context.Context) error, options ...AcquireOption) error {
	return do(ctx, fn, options, func(ctx context.Context, options ...AcquireOption) (*Lock, error) {
		return l.Acquire(ctx, key, options...)
	})
}

// DoShared is Do with [Locker.AcquireShared]: fn runs beside other readers of the key, and no
// writer.
func (l *Locker) DoShared(ctx context.Context, key string, fn func(ctx context.Context) error, options ...AcquireOption) error {
	return do(ctx, fn, options, func(ctx context.Context, options ...AcquireOption) (*Lock, error) {
		return l.AcquireShared(ctx, key, options...)
	})
}

// DoAll is Do with [Locker.AcquireAll]: fn runs under all keys.
func (l *Locker) DoAll(ctx context.Context, keys []string, fn func(ctx context.Context) error, options ...AcquireOption) error {
	return do(ctx, fn, options, func(ctx context.Context, options ...AcquireOption) (*Lock, error) {
		return l.AcquireAll(ctx, keys, options...)
	})
}

// Do is [Locker.Do] with one permit. In fn, [FromContext] returns it, and [Lock.Slots] says which
// one it is.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context) error, options ...AcquireOption) error {
	return do(ctx, fn, options, func(ctx context.Context, options ...AcquireOption) (*Lock, error) { return s.Acquire(ctx, options...) })
}

// endsWithCaller lets the lock's context end with that of the call that takes it.
var endsWithCaller = acquireOption(func(o *settings) { o.endsWithCaller = true })

// do is Do for a lock of any kind.
func do(ctx context.Context, fn func(ctx context.Context) error, options []AcquireOption, acquire func(context.Context, ...AcquireOption) (*Lock, error)) error {
	lock, err := acquire(ctx, append([]AcquireOption{endsWithCaller}, options...)...)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit
			_ = lock.Release() // there is nobody to tell
		}
	}()
	held := lock.Context()
	err = fn(held) //nolint:contextcheck // it descends from ctx
	returned = true
	fate := context.Cause(held) //nolint:contextcheck // before the release, which is an end as well
	released := lock.Release()
	switch {
	case errors.Is(fate, ErrLost):
		if errors.Is(err, fate) { // the function has returned the context's cause
			fate, err = err, nil
		}
		loss := fmt.Errorf("redlock: do %q: the function was not alone to its end: %w", lock.Key(), fate)
		if !errors.Is(released, ErrNoQuorum) {
			released = nil // loss says the same
		}
		released = errors.Join(loss, released)
	case errors.Is(released, ErrReleased): // by the function itself
		released = nil
	}
	return errors.Join(err, released)
}
