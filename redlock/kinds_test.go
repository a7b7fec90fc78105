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

// A heldLock is what locks of all kinds have in common.
type heldLock interface {
	Key() string
	Token() string
	String() string
	GoString() string
	Context() context.Context
	Until() time.Time
	Valid() bool
	Fence() int64
	Votes() []Vote
	Held(ctx context.Context) (bool, error)
	Extend(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
	Abandon() error
}

// kindsOfLocks acquire a lock of each kind, under one name.
var kindsOfLocks = map[string]func(l *Locker, ctx context.Context, options ...AcquireOption) (heldLock, error){
	"an exclusive lock": func(l *Locker, ctx context.Context, options ...AcquireOption) (heldLock, error) {
		return l.Acquire(ctx, "k", options...)
	},
	"a shared lock": func(l *Locker, ctx context.Context, options ...AcquireOption) (heldLock, error) {
		return l.AcquireShared(ctx, "k", options...)
	},
	"several keys": func(l *Locker, ctx context.Context, options ...AcquireOption) (heldLock, error) {
		return l.AcquireAll(ctx, []string{"k", "l", "m"}, options...)
	},
	"a permit": func(l *Locker, ctx context.Context, options ...AcquireOption) (heldLock, error) {
		s, err := l.Semaphore("k", 2)
		if err != nil {
			return nil, err
		}
		return s.Acquire(ctx, options...)
	},
	"what was downgraded": func(l *Locker, ctx context.Context, options ...AcquireOption) (heldLock, error) {
		lock, err := l.Acquire(ctx, "k", options...)
		if err != nil {
			return nil, err
		}
		return lock.Downgrade(ctx)
	},
	"what was upgraded": func(l *Locker, ctx context.Context, options ...AcquireOption) (heldLock, error) {
		lock, err := l.AcquireShared(ctx, "k", options...)
		if err != nil {
			return nil, err
		}
		return lock.TryUpgrade(ctx)
	},
}

// onEachKind runs a test with a lock of each kind, on five nodes.
func onEachKind(t *testing.T, options []Option, acquire []AcquireOption, test func(t *testing.T, locker *Locker, fakes []*fakeNode, lock heldLock)) {
	t.Helper()
	for name, take := range kindsOfLocks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 5, options...)
				var lock heldLock
				for i := range 2 { // at the first time the nodes do not know the scripts yet
					var err error
					lock, err = take(locker, t.Context(), acquire...)
					synctest.Wait() // so that it leaves for all of them
					if err == nil && i == 0 {
						err = lock.Release(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				test(t, locker, fakes, lock)
			})
		})
	}
}

func TestEveryKindKeepsThePromisesOfALock(t *testing.T) {
	onEachKind(t, []Option{WithTTL(10 * time.Second), WithFences()}, nil, func(t *testing.T, locker *Locker, fakes []*fakeNode, lock heldLock) {
		granted := 0
		for _, vote := range lock.Votes() {
			if vote.Answer == Granted {
				granted++
			}
		}
		if left := time.Until(lock.Until()); !lock.Valid() || left > 10*time.Second || left < 9*time.Second || lock.Fence() == 0 || granted != 5 {
			t.Errorf("valid %v for %v with the fence %d and the votes %v, want a lease of 10s less the drift, a fence and 5 votes", lock.Valid(), left, lock.Fence(), lock.Votes())
		}
		if text := fmt.Sprintf("%v %+v %#v %s", lock, lock, lock, lock); strings.Contains(text, lock.Token()) {
			t.Errorf("the token shows in %q", text)
		}
		held := lock.Context()
		time.Sleep(5 * time.Second)
		if err := lock.Extend(t.Context(), 10*time.Second); err != nil {
			t.Errorf("Extend = %v", err)
		}
		time.Sleep(8 * time.Second)
		if held.Err() != nil {
			t.Errorf("the context ended before the lease that was extended: %v", context.Cause(held))
		}
		if is, err := lock.Held(t.Context()); err != nil || !is {
			t.Errorf("Held = %v, %v", is, err)
		}
		if err := lock.Release(t.Context()); err != nil || !errors.Is(context.Cause(held), ErrReleased) || lock.Valid() {
			t.Errorf("Release = %v, and the context ended because of %v", err, context.Cause(held))
		}
		if err := lock.Release(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("the second Release = %v, want ErrReleased", err)
		}
		if err := lock.Extend(t.Context(), time.Second); !errors.Is(err, ErrReleased) {
			t.Errorf("Extend after Release = %v, want ErrReleased", err)
		}
		synctest.Wait()
		for _, key := range []string{"k", "l", "m", "ql:slot:{k}0", "ql:slot:{k}1", "ql:readers:{k}"} {
			if at := stray(fakes, key); len(at) > 0 {
				t.Errorf("%q is left at %v", key, at)
			}
		}
		time.Sleep(time.Minute)
		empty(t, locker)
	})
}

func TestPitfall19OfEveryKindARenewalThatHangsEndsTheContextAtTheDeadline(t *testing.T) {
	onEachKind(t, []Option{WithTTL(10 * time.Second)}, []AcquireOption{WithRenewal()}, func(t *testing.T, _ *Locker, fakes []*fakeNode, lock heldLock) {
		time.Sleep(time.Minute)
		if !lock.Valid() {
			t.Fatalf("a lock that is renewed is lost: %v", context.Cause(lock.Context()))
		}
		for _, f := range fakes {
			f.stop()
		}
		time.Sleep(time.Millisecond) // a renewal may be under way
		until := lock.Until()
		held := lock.Context()
		<-held.Done()
		if late := time.Since(until); late > 100*time.Millisecond || time.Until(until) > 10*time.Second || !errors.Is(context.Cause(held), ErrLost) {
			t.Errorf("the context ended %v behind the deadline, because of %v", late, context.Cause(held))
		}
		_ = lock.Release(t.Context())
	})
}

func TestPitfall21OfEveryKindNoRenewalLengthensALease(t *testing.T) {
	onEachKind(t, []Option{WithTTL(10 * time.Second)}, []AcquireOption{WithRenewal()}, func(t *testing.T, _ *Locker, fakes []*fakeNode, lock heldLock) {
		for range 20 {
			time.Sleep(7 * time.Second)
			for _, f := range fakes {
				f.change(func(f *fakeNode) {
					for key, held := range f.keys {
						if left := held.until.Sub(f.now()); left > 10*time.Second && key != "ql:permits:{k}" {
							t.Errorf("%s keeps %q for %v, the lease is 10s", f.name, key, left)
						}
					}
				})
			}
		}
		if left := time.Until(lock.Until()); left > 10*time.Second {
			t.Errorf("the lease lasts %v, want at most 10s", left)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseReleasesLocksOfEveryKind(t *testing.T) {
	onEachKind(t, nil, nil, func(t *testing.T, locker *Locker, fakes []*fakeNode, lock heldLock) {
		held := lock.Context()
		if err := locker.Close(); err != nil || !errors.Is(context.Cause(held), ErrClosed) {
			t.Errorf("Close = %v, and the context ended because of %v", err, context.Cause(held))
		}
		for _, key := range []string{"k", "l", "m", "ql:slot:{k}0", "ql:slot:{k}1"} {
			if at := stray(fakes, key); len(at) > 0 {
				t.Errorf("%q is left at %v", key, at)
			}
		}
	})
}

func TestALostLockOfEveryKindSaysSo(t *testing.T) {
	onEachKind(t, []Option{WithTTL(time.Second)}, nil, func(t *testing.T, _ *Locker, _ []*fakeNode, lock heldLock) {
		time.Sleep(2 * time.Second)
		if lock.Valid() || !errors.Is(context.Cause(lock.Context()), ErrLost) {
			t.Errorf("after its lease it is valid: %v, and ended because of %v", lock.Valid(), context.Cause(lock.Context()))
		}
		if err := lock.Extend(t.Context(), time.Second); !errors.Is(err, ErrLost) {
			t.Errorf("Extend = %v, want ErrLost", err)
		}
		if err := lock.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	})
}
