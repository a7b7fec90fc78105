package redlock

import (
	"context"
	"errors"
	"strings"
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
		if !errors.Is(err, ErrTaken) {
			t.Errorf("Do = %v, want ErrTaken", err)
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

// It would wait for itself, and renewal would go on meanwhile.
func TestAnAcquireOfAKeyThatItsContextHoldsIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithKeyPrefix("app:"))
		outer := mustAcquire(t, locker, "k", WithRenewal())
		inner, err := locker.Acquire(outer.Context(), "inner")
		if err != nil {
			t.Fatalf("Acquire of another key under a lock's context = %v", err)
		}
		type own struct{}
		start, before := time.Now(), fakes[0].batches()
		for name, ctx := range map[string]context.Context{
			"its own":            outer.Context(),
			"one below":          context.WithValue(outer.Context(), own{}, 1),
			"that of one within": inner.Context(),
			"one that goes on":   context.WithoutCancel(outer.Context()),
		} {
			tries := map[string]error{}
			_, tries["Acquire"] = locker.Acquire(ctx, "k", WithMaxWait(time.Minute))
			_, tries["TryAcquire"] = locker.TryAcquire(ctx, "k")
			tries["Do"] = locker.Do(ctx, "k", func(context.Context) error { return nil }, WithMaxWait(time.Minute))
			for what, err := range tries {
				if !errors.Is(err, ErrDeadlock) || !strings.Contains(err.Error(), `"k"`) {
					t.Errorf("%s under the lock's context, %s = %v, want ErrDeadlock that names the key", what, name, err)
				}
			}
		}
		if took, sent := time.Since(start), fakes[0].batches()-before; took != 0 || sent != 0 {
			t.Errorf("that took %v and %d batches, want nothing", took, sent)
		}
	})
}

func TestALocksContextMayTakeWhatItDoesNotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		if _, err := another(t, fakes).TryAcquire(lock.Context(), "k"); !errors.Is(err, ErrTaken) || errors.Is(err, ErrDeadlock) {
			t.Errorf("another Locker's TryAcquire under the lock's context = %v, want ErrTaken", err)
		}
		mustRelease(t, mustAcquireUnder(lock.Context(), t, locker, "other"))
		ctx := context.WithoutCancel(lock.Context())
		mustRelease(t, lock)
		mustRelease(t, mustAcquireUnder(ctx, t, locker, "k")) // the lock was released

		lock = mustAcquire(t, locker, "k")
		ctx = context.WithoutCancel(lock.Context())
		time.Sleep(11 * time.Second)
		mustRelease(t, mustAcquireUnder(ctx, t, locker, "k")) // the lock was lost

		lock = mustAcquire(t, locker, "k", WithToken("mine"))
		if _, err := locker.TryAcquire(lock.Context(), "k", WithToken("mine")); err != nil {
			t.Errorf("TryAcquire under the lock's context with the lock's own token = %v, want the lock once more", err)
		}
		if _, err := locker.TryAcquire(lock.Context(), "k", WithToken("another")); !errors.Is(err, ErrDeadlock) {
			t.Errorf("TryAcquire under the lock's context with another token = %v, want ErrDeadlock", err)
		}
	})
}

func mustAcquireUnder(ctx context.Context, t *testing.T, locker *Locker, key string) *Lock {
	t.Helper()
	lock, err := locker.TryAcquire(ctx, key)
	if err != nil {
		t.Fatalf("TryAcquire(%q) = %v", key, err)
	}
	return lock
}

func TestALossIsNotHiddenByNodesThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		err := locker.Do(t.Context(), "k", func(ctx context.Context) error {
			for _, f := range fakes[:3] {
				f.change(refuse)
			}
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, ErrLost) || !errors.Is(err, ErrNoQuorum) {
			t.Errorf("Do = %v, want ErrLost and ErrNoQuorum: the lock was lost, and a majority does not answer its release", err)
		}
	})
}

func TestAReleaseThatIsInterruptedTellsOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		<-lock.Context().Done()
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 100 * time.Millisecond })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := lock.Release(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrLost) {
			t.Errorf("Release of a lost lock with a context that ends = %v, want both", err)
		}
	})
}
