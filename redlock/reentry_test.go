package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestReentryGivesAViewOfTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFences())
		hold := mustAcquire(t, locker, "k")
		synctest.Wait()
		asked := fakes[0].batches()
		type mark struct{}
		caller := context.WithValue(hold.Context(), mark{}, "caller")
		for _, acquire := range []func(context.Context, string, ...AcquireOption) (*Lock, error){locker.Acquire, locker.TryAcquire} {
			view, err := acquire(caller, "k", WithReentry())
			if err != nil {
				t.Fatalf("an acquire with reentry = %v", err)
			}
			inner := view.Context()
			if view.Fence() != hold.Fence() || view.Token() != hold.Token() || !view.Valid() || inner.Value(mark{}) != "caller" || FromContext(inner) != view {
				t.Errorf("the view %v is not that of the hold, under its caller's context", view)
			}
			second, err := acquire(inner, "k", WithReentry())
			if err != nil {
				t.Fatalf("an acquire under a view = %v", err)
			}
			if err := view.Release(t.Context()); err != nil {
				t.Errorf("Release of a view = %v", err)
			}
			if !errors.Is(context.Cause(inner), ErrReleased) || !errors.Is(context.Cause(second.Context()), ErrReleased) {
				t.Error("the release of a view has not ended its context, and what descends from it")
			}
			if hold.Context().Err() != nil || !hold.Valid() || view.Valid() {
				t.Error("the release of a view has ended the hold, or not the view")
			}
			if err := view.Release(t.Context()); !errors.Is(err, ErrReleased) {
				t.Errorf("the second Release of a view = %v, want ErrReleased", err)
			}
			if err := view.Extend(t.Context(), time.Second); !errors.Is(err, ErrReleased) {
				t.Errorf("Extend of a view that was released = %v, want ErrReleased", err)
			}
		}
		synctest.Wait()
		if fakes[0].batches() != asked {
			t.Error("reentry has asked a node")
		}
		view, err := locker.Acquire(caller, "k", WithReentry())
		if err != nil {
			t.Fatal(err)
		}
		if err := view.Extend(t.Context(), time.Minute); err != nil || time.Until(hold.Until()) < 50*time.Second {
			t.Errorf("Extend of a view = %v, and the hold lasts until %v, want a minute", err, hold.Until())
		}
		mustRelease(t, hold)
		if !errors.Is(context.Cause(view.Context()), ErrReleased) || view.Valid() {
			t.Error("a view has outlived its hold")
		}
		if err := view.Release(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("Release of a view after its hold's = %v, want ErrReleased", err)
		}
	})
}

func TestAViewEndsWithALostHoldWhateverItsCallersContextDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		hold := mustAcquire(t, locker, "k")
		view, err := locker.Acquire(context.WithoutCancel(hold.Context()), "k", WithReentry())
		if err != nil {
			t.Fatal(err)
		}
		<-view.Context().Done()
		if !errors.Is(context.Cause(view.Context()), ErrLost) {
			t.Errorf("the view ends because of %v, want ErrLost", context.Cause(view.Context()))
		}
		if err := view.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("Release of a view of a lost hold = %v, want ErrLost", err)
		}
		if err := hold.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("Release of the lost hold = %v, want ErrLost", err)
		}
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
		if _, err := locker.TryAcquire(hold.Context(), "k"); !errors.Is(err, ErrDeadlock) {
			t.Errorf("without the option, TryAcquire = %v, want ErrDeadlock", err)
		}
		if _, err := locker.TryAcquire(t.Context(), "k", WithReentry()); !errors.Is(err, ErrTaken) {
			t.Errorf("outside of the hold's context, TryAcquire = %v, want ErrTaken", err)
		}
		if _, err := locker.TryAcquire(hold.Context(), "k", WithReentry(), WithToken("t")); !errors.Is(err, ErrDeadlock) {
			t.Errorf("with a token of one's own, TryAcquire = %v, want ErrDeadlock", err)
		}
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
		if err != nil {
			t.Errorf("a Do within a Do = %v", err)
		}
		empty(t, locker)
	})
}

func TestAWriterCoversAReaderAndNotTheOtherWayRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		writer := mustAcquire(t, locker, "k")
		synctest.Wait()
		asked := fakes[0].batches()
		reader, err := locker.AcquireShared(writer.Context(), "k", WithReentry())
		if err != nil || reader.Token() != writer.Token() {
			t.Fatalf("AcquireShared under the writer's context = %v, %v, want a view of it", reader, err)
		}
		if _, err := reader.TryUpgrade(t.Context()); !errors.Is(err, ErrOption) {
			t.Errorf("TryUpgrade of a view = %v, want ErrOption", err)
		}
		if err := reader.Release(t.Context()); err != nil || !writer.Valid() || fakes[0].batches() != asked {
			t.Errorf("Release of a view = %v, and the writer is valid: %v", err, writer.Valid())
		}
		if _, err := locker.TryAcquireShared(writer.Context(), "k"); !errors.Is(err, ErrDeadlock) {
			t.Errorf("without reentry, TryAcquireShared under the writer's context = %v, want ErrDeadlock", err)
		}
		mustRelease(t, writer)

		hold, err := locker.AcquireShared(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		asked = fakes[0].batches()
		view, err := locker.TryAcquireShared(hold.Context(), "k", WithReentry())
		if err != nil || view.Token() != hold.Token() || fakes[0].batches() != asked {
			t.Errorf("TryAcquireShared under a reader's context = %v, %v, want a view of it", view, err)
		}
		if _, err := locker.Acquire(hold.Context(), "k", WithReentry()); !errors.Is(err, ErrDeadlock) || !strings.Contains(err.Error(), "TryUpgrade") {
			t.Errorf("Acquire under a reader's context = %v, want ErrDeadlock that names TryUpgrade", err)
		}
		if err := hold.Release(t.Context()); err != nil || view.Valid() {
			t.Errorf("Release = %v, and the view is valid: %v", err, view.Valid())
		}
	})
}
