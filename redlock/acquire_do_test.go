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

func TestDoTellsOfALossAlthoughTheFunctionReturnsNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		wrong := errors.New("something of the function's own")
		for _, own := range []error{nil, wrong} {
			err := locker.Do(t.Context(), "k", func(ctx context.Context) error {
				changeAll(fakes[:3], refuse)
				<-ctx.Done()
				changeAll(fakes[:3], func(f *fakeNode) { f.Refused = nil })
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
		wantFree(t, fakes, "k")
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
		}, `shared lock "k"`, nil, 0},
		"DoAll": {func(l *Locker, _ *Semaphore, ctx context.Context, fn work, options ...AcquireOption) error {
			return l.DoAll(ctx, []string{"l", "k"}, fn, options...)
		}, `lock "k, l"`, []string{"k", "l"}, 0},
		"Semaphore.Do": {func(_ *Locker, s *Semaphore, ctx context.Context, fn work, options ...AcquireOption) error {
			return s.Do(ctx, fn, options...)
		}, `slot `, []string{"s"}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			s := newSemaphore(t, locker, 2)
			wrong := errors.New("something of the function's own")
			outer := mustAcquire(t, locker, "outer", WithRenewal())
			err := tt.do(locker, s, outer.Context(), func(ctx context.Context) error {
				time.Sleep(time.Minute) // six TTLs
				alone, reader := FromContext(ctx), SharedFromContext(ctx)
				var found heldLock = alone
				if tt.keys == nil {
					found = reader
				} else if !slices.Equal(alone.Keys(), tt.keys) || len(alone.Slots()) != tt.slots || reader != nil {
					t.Errorf("in %s FromContext has the keys %q and the slots %v, and a reader is %v", name, alone.Keys(), alone.Slots(), reader)
				}
				if tt.keys == nil && alone != nil && alone.Key() != "outer" {
					t.Errorf("in %s FromContext = %v, want the lock around it", name, alone)
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
			err = tt.do(locker, s, t.Context(), func(ctx context.Context) error {
				changeAll(fakes[:3], refuse)
				<-ctx.Done()
				return nil
			})
			if !errors.Is(err, ErrLost) || !errors.Is(err, ErrNoQuorum) {
				t.Errorf("%s whose lock was lost = %v, want ErrLost and ErrNoQuorum: a majority does not answer its release", name, err)
			}
		})
	}
}

func TestReentryGivesAViewOfTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		hold := mustAcquire(t, locker, "k")
		synctest.Wait()
		asked := fakes[0].Batches()
		type mark struct{}
		caller := context.WithValue(hold.Context(), mark{}, "caller")
		for _, acquire := range []func(context.Context, string, ...AcquireOption) (*Lock, error){locker.Acquire, locker.TryAcquire} {
			view, err := acquire(caller, "k", WithReentry())
			must(t, err, "an acquire with reentry")
			inner := view.Context()
			if view.Fence() != hold.Fence() || view.Token() != hold.Token() || !view.Valid() || inner.Value(mark{}) != "caller" || FromContext(inner) != view {
				t.Errorf("the view %v is not that of the hold, under its caller's context", view)
			}
			second, err := acquire(inner, "k", WithReentry())
			must(t, err, "an acquire under a view")
			noError(t, view.Release(), "Release of a view")
			if !errors.Is(context.Cause(inner), ErrReleased) || !errors.Is(context.Cause(second.Context()), ErrReleased) {
				t.Error("the release of a view has not ended its context, and what descends from it")
			}
			if hold.Context().Err() != nil || !hold.Valid() || view.Valid() {
				t.Error("the release of a view has ended the hold, or not the view")
			}
			returns(t, ErrReleased, "the second Release of a view")(view.Release())
			returns(t, ErrReleased, "Extend of a view that was released")(view.Extend(t.Context(), time.Second))
		}
		synctest.Wait()
		if fakes[0].Batches() != asked {
			t.Error("reentry has asked a node")
		}
		view, err := locker.Acquire(caller, "k", WithReentry())
		must(t, err)
		if err := view.Extend(t.Context(), time.Minute); err != nil || time.Until(hold.Until()) < 50*time.Second {
			t.Errorf("Extend of a view = %v, and the hold lasts until %v, want a minute", err, hold.Until())
		}
		mustRelease(t, hold)
		if !errors.Is(context.Cause(view.Context()), ErrReleased) || view.Valid() {
			t.Error("a view has outlived its hold")
		}
		returns(t, ErrReleased, "Release of a view after its hold's")(view.Release())
	})
}

func TestAViewEndsWithALostHoldWhateverItsCallersContextDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		hold := mustAcquire(t, locker, "k")
		view, err := locker.Acquire(context.WithoutCancel(hold.Context()), "k", WithReentry())
		must(t, err)
		<-view.Context().Done()
		returns(t, ErrLost, "the cause")(context.Cause(view.Context()))
		returns(t, ErrLost, "Release of a view of a lost hold")(view.Release())
		returns(t, ErrLost, "Release of the lost hold")(hold.Release())
	})
}

func TestReentryPromisesNoMoreThanTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		hold := mustAcquire(t, locker, "k", WithTTL(5*time.Second))
		for name, options := range map[string][]AcquireOption{
			"TTL":     {WithReentry(), WithTTL(6 * time.Second)},
			"Renewal": {WithReentry(), WithTTL(time.Second), WithRenewal()},
		} {
			var bad *OptionError
			if _, err := locker.Acquire(hold.Context(), "k", options...); !errors.As(err, &bad) || bad.Option != name {
				t.Errorf("reentry for more than the hold promises = %v, want an OptionError for %s", err, name)
			}
		}
		returns(t, ErrDeadlock, "without the option, TryAcquire")(locker.TryAcquire(hold.Context(), "k"))
		returns(t, ErrTaken, "outside of the hold's context, TryAcquire")(locker.TryAcquire(t.Context(), "k", WithReentry()))
		returns(t, ErrDeadlock, "with a token of one's own, TryAcquire")(locker.TryAcquire(hold.Context(), "k", WithReentry(), WithToken("t")))
		ended, cancel := context.WithCancel(hold.Context())
		cancel()
		returns(t, context.Canceled, "under a context that has ended")(locker.TryAcquire(ended, "k", WithReentry(), WithTTL(time.Second)))
		mustRelease(t, hold)
	})
}

func TestDoMayBeNestedWithReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3, WithReentry())
		err := locker.Do(t.Context(), "k", func(outer context.Context) error {
			hold := FromContext(outer)
			err := locker.Do(outer, "k", func(inner context.Context) error {
				if view := FromContext(inner); view == hold || view.Token() != hold.Token() {
					t.Error("the inner Do has not the outer one's hold")
				}
				return nil
			})
			if !hold.Valid() {
				t.Error("the inner Do has ended the outer one's hold")
			}
			return err
		})
		noError(t, err, "a Do within a Do")
		empty(t, locker)
	})
}

func TestAWriterCoversAReaderAndNotTheOtherWayRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		writer := mustAcquire(t, locker, "k")
		synctest.Wait()
		asked := fakes[0].Batches()
		reader, err := locker.AcquireShared(writer.Context(), "k", WithReentry())
		if err != nil || reader.Token() != writer.Token() {
			t.Fatalf("AcquireShared under the writer's context = %v, %v, want a view of it", reader, err)
		}
		returns(t, ErrOption, "TryUpgrade of a view")(reader.TryUpgrade(t.Context()))
		if err := reader.Release(); err != nil || !writer.Valid() || fakes[0].Batches() != asked {
			t.Errorf("Release of a view = %v, and the writer is valid: %v", err, writer.Valid())
		}
		returns(t, ErrDeadlock, "without reentry, TryAcquireShared under the writer's context")(locker.TryAcquireShared(writer.Context(), "k"))
		mustRelease(t, writer)

		hold, err := locker.AcquireShared(t.Context(), "k")
		must(t, err)
		synctest.Wait()
		asked = fakes[0].Batches()
		view, err := locker.TryAcquireShared(hold.Context(), "k", WithReentry())
		if err != nil || view.Token() != hold.Token() || fakes[0].Batches() != asked {
			t.Errorf("TryAcquireShared under a reader's context = %v, %v, want a view of it", view, err)
		}
		says(t, ErrDeadlock, "TryUpgrade")(locker.Acquire(hold.Context(), "k", WithReentry()))
		if err := hold.Release(); err != nil || view.Valid() {
			t.Errorf("Release = %v, and the view is valid: %v", err, view.Valid())
		}
	})
}
