package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestALockIsTakenRefusedReleasedAndTakenAgain(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, n)
			lock, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Fatalf("%d nodes: TryAcquire = %v", n, err)
			}
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrTaken) {
				t.Errorf("%d nodes: the second TryAcquire = %v, want ErrTaken", n, err)
			}
			if err := lock.Extend(t.Context(), 20*time.Second); err != nil {
				t.Errorf("%d nodes: Extend = %v", n, err)
			}
			if held, err := lock.Held(t.Context()); !held || err != nil {
				t.Errorf("%d nodes: Held = %v, %v", n, held, err)
			}
			ctx := lock.Context()
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("%d nodes: Release = %v", n, err)
			}
			if context.Cause(ctx) != ErrReleased {
				t.Errorf("%d nodes: the context ended with %v, want ErrReleased", n, context.Cause(ctx))
			}
			synctest.Wait()
			if names := stray(fakes, "k"); names != nil {
				t.Errorf("%d nodes: after the release the key is still at %v", n, names)
			}
			again, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Errorf("%d nodes: TryAcquire after the release = %v", n, err)
			} else if again.Token() == lock.Token() {
				t.Errorf("%d nodes: two acquires share the token", n)
			}
			if err := locker.Close(); err != nil {
				t.Errorf("%d nodes: Close = %v", n, err)
			}
			if names := stray(fakes, "k"); names != nil {
				t.Errorf("%d nodes: after Close the key is still at %v", n, names)
			}
		})
	}
}

func TestNoFormatShowsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if text := fmt.Sprintf(format, lock); strings.Contains(text, lock.Token()[4:]) || !strings.Contains(text, "valid for 9.898s") {
				t.Errorf("%s of a lock is %s", format, text)
			}
		}
	})
}

func TestUnknownAnswersAndKindsHaveAName(t *testing.T) {
	if text := Answer(99).String() + EventKind(99).String(); !strings.Contains(text, "99") {
		t.Errorf("unknown values are called %q", text)
	}
}
