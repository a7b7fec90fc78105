package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

func TestLocksThatTakeTurnsNeedScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithFairness())
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.scriptless = true })
		}
		if _, err := locker.Acquire(t.Context(), "a"); !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "allow +eval +evalsha") {
			t.Errorf("Acquire = %v, want ErrNode with what to allow", err)
		}
	})
}

func TestAPriorityIsRefusedWhereNobodyStandsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fair, fakes := newLocker(t, 3, WithFairness())
		permits, err := fair.Semaphore("s", 2)
		if err != nil {
			t.Fatal(err)
		}
		ctx, priority := t.Context(), WithPriority(1)
		for name, acquire := range map[string]func() error{
			"AcquireShared":            func() error { _, err := fair.AcquireShared(ctx, "k", priority); return err },
			"AcquireAll":               func() error { _, err := fair.AcquireAll(ctx, []string{"k", "l"}, priority); return err },
			"a permit":                 func() error { _, err := permits.Acquire(ctx, priority); return err },
			"several permits":          func() error { _, err := permits.AcquireN(ctx, 2, priority); return err },
			"Acquire WithToken":        func() error { _, err := fair.Acquire(ctx, "k", priority, ownToken); return err },
			"Acquire without fairness": func() error { _, err := another(t, fakes).Acquire(ctx, "k", priority); return err },
		} {
			var option *OptionError
			if err := acquire(); !errors.As(err, &option) || option.Option != "priority" {
				t.Errorf("%s WithPriority = %v, want an OptionError", name, err)
			}
		}
	})
}

func TestReentryWorksUnderAnUpgradedLockOfAFairLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3, WithFairness())
		for name, hold := range map[string]func() *Lock{
			"upgraded":   func() *Lock { return mustUpgrade(t, mustShare(t, locker, "k")) },
			"of a token": func() *Lock { return mustAcquire(t, locker, "k", ownToken) },
		} {
			lock := hold()
			for kind, acquire := range map[string]func(ctx context.Context) (interface{ Token() string }, error){
				"Acquire": func(ctx context.Context) (interface{ Token() string }, error) {
					return locker.Acquire(ctx, "k", WithReentry())
				},
				"AcquireShared": func(ctx context.Context) (interface{ Token() string }, error) {
					return locker.AcquireShared(ctx, "k", WithReentry())
				},
			} {
				if view, err := acquire(lock.Context()); err != nil || view.Token() != lock.Token() {
					t.Errorf("%s under a lock that is %s = %v, %v; want a view of it", kind, name, view, err)
				}
			}
			mustRelease(t, lock)
		}
	})
}
