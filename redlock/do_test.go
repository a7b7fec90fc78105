package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDoHoldsTheLockWhileTheFunctionRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		wrong := errors.New("something of the function's own")
		err := locker.Do(t.Context(), "k", func(ctx context.Context) error {
			time.Sleep(time.Minute) // six TTLs
			lock := FromContext(ctx)
			if lock == nil || !lock.Valid() || ctx.Err() != nil {
				t.Errorf("in the function the lock is %v, and the context says %v", lock, ctx.Err())
			}
			return wrong
		})
		if !errors.Is(err, wrong) || errors.Is(err, ErrLost) {
			t.Errorf("Do = %v, want the function's error alone", err)
		}
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("after Do the key is at %v", names)
		}
		if err := locker.Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
			t.Errorf("Do of a function that returns nil = %v", err)
		}
	})
}

func TestDoTellsOfALossAlthoughTheFunctionReturnsNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		wrong := errors.New("something of the function's own")
		for _, own := range []error{nil, wrong} {
			err := locker.Do(t.Context(), "k", func(ctx context.Context) error {
				for _, f := range fakes[:3] {
					f.change(refuse)
				}
				<-ctx.Done()
				for _, f := range fakes[:3] {
					f.change(func(f *fakeNode) { f.refused = nil })
				}
				return own
			})
			if !errors.Is(err, ErrLost) || !errors.Is(err, own) && own != nil {
				t.Errorf("the lock was lost while the function ran and returned %v: Do = %v, want both", own, err)
			}
			time.Sleep(11 * time.Second)
		}
	})
}

func TestDoReleasesWhenTheFunctionPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		func() {
			defer func() {
				if cause := recover(); cause != "oops" {
					t.Errorf("the panic goes on with %v", cause)
				}
			}()
			_ = locker.Do(t.Context(), "k", func(context.Context) error { panic("oops") })
		}()
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("after the panic the key is at %v", names)
		}
	})
}

func TestDoDoesNotCallTheFunctionWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		mustAcquire(t, locker, "k")
		err := locker.Do(t.Context(), "k", func(context.Context) error {
			t.Error("the function was called")
			return nil
		}, WithMaxWait(time.Second))
		if !errors.Is(err, ErrHeld) {
			t.Errorf("Do = %v, want ErrHeld", err)
		}
	})
}

func TestDoReleasesAfterItsContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		err := locker.Do(ctx, "k", func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) {
			t.Errorf("Do = %v, want the context's error alone", err)
		}
		synctest.Wait()
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("after Do the key is at %v", names)
		}
	})
}

func TestAFunctionMayReleaseItsLockItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		if err := locker.Do(t.Context(), "k", func(ctx context.Context) error {
			return FromContext(ctx).Release(context.WithoutCancel(ctx))
		}); err != nil {
			t.Errorf("Do of a function that releases = %v", err)
		}
	})
}
