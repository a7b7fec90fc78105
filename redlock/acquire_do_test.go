package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
		wantFree(t, fakes, "k")
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

func TestAFunctionMayReleaseItsLockItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		if err := locker.Do(t.Context(), "k", func(ctx context.Context) error {
			return FromContext(ctx).Release()
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
		must(t, err, "Acquire of another key under a lock's context")
		type own struct{}
		start, before := time.Now(), fakes[0].Batches()
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
		if took, sent := time.Since(start), fakes[0].Batches()-before; took != 0 || sent != 0 {
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
		returns(t, ErrDeadlock, "TryAcquire under the lock's context with another token")(locker.TryAcquire(lock.Context(), "k", WithToken("another")))
	})
}

func TestDoOfEveryKindRunsUnderItsLock(t *testing.T) {
	type work = func(ctx context.Context) error
	for name, tt := range map[string]struct {
		do    func(l *Locker, s *Semaphore, ctx context.Context, fn work, options ...AcquireOption) error
		says  string // the lock that the function finds
		keys  []string
		slots int
	}{
		"Do": {func(l *Locker, _ *Semaphore, ctx context.Context, fn work, options ...AcquireOption) error {
			return l.Do(ctx, "k", fn, options...)
		}, `lock "k"`, []string{"k"}, 0},
		"DoShared": {func(l *Locker, _ *Semaphore, ctx context.Context, fn work, options ...AcquireOption) error {
			return l.DoShared(ctx, "k", fn, options...)
		}, `shared lock "k"`, []string{"k"}, 0},
		"DoAll": {func(l *Locker, _ *Semaphore, ctx context.Context, fn work, options ...AcquireOption) error {
			return l.DoAll(ctx, []string{"l", "k"}, fn, options...)
		}, `lock "k, l"`, []string{"k", "l"}, 0},
		"Semaphore.Do": {func(_ *Locker, s *Semaphore, ctx context.Context, fn work, options ...AcquireOption) error {
			return s.Do(ctx, fn, options...)
		}, `slot 0 of "s", valid for `, []string{"s"}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5, WithRenewal())
			s := newSemaphore(t, locker, 1)
			wrong := errors.New("something of the function's own")
			outer := mustAcquire(t, locker, "outer", WithRenewal())
			err := tt.do(locker, s, outer.Context(), func(ctx context.Context) error {
				time.Sleep(time.Minute) // six TTLs
				found := FromContext(ctx)
				if !slices.Equal(found.Keys(), tt.keys) || len(found.Slots()) != tt.slots || found.Shared() != (name == "DoShared") {
					t.Errorf("in %s FromContext has the keys %q and the slots %v, and is shared: %v", name, found.Keys(), found.Slots(), found.Shared())
				}
				if !found.Valid() || !strings.HasPrefix(found.String(), tt.says) || ctx.Err() != nil {
					t.Errorf("in %s the lock is %v, and the context says %v", name, found, ctx.Err())
				}
				return wrong
			})
			if !errors.Is(err, wrong) || errors.Is(err, ErrLost) {
				t.Errorf("%s = %v, want the function's error alone", name, err)
			}
			synctest.Wait()
			wantFree(t, fakes, "k", name)
			returns(t, nil, name)(tt.do(locker, s, t.Context(), func(context.Context) error { return nil }))
			for _, own := range []error{nil, wrong} {
				err = tt.do(locker, s, t.Context(), func(ctx context.Context) error {
					changeAll(fakes[:3], refuse)
					<-ctx.Done()
					return own
				})
				if !errors.Is(err, ErrLost) || !errors.Is(err, ErrNoQuorum) || !errors.Is(err, own) && own != nil {
					t.Errorf("%s whose lock was lost while the function ran and returned %v = %v, want both, and ErrNoQuorum: a majority does not answer its release", name, own, err)
				}
				changeAll(fakes[:3], func(f *fakeNode) { f.Refused = nil })
				time.Sleep(11 * time.Second)
			}
		})
	}
}
