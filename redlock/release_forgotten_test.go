package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// collect runs garbage collections until nobody can reach what was handed out of a lease any more.
func collect(t *testing.T, of *lease) {
	t.Helper()
	for range 100 {
		runtime.GC()
		if of.handle.Value() == nil {
			return
		}
	}
	t.Error("the lock is reached after 100 garbage collections")
}

// careless takes a lock, and keeps nothing by which it can be released.
//
//go:noinline
func careless(t *testing.T, take func(l *Locker, ctx context.Context, options ...AcquireOption) (*Lock, error), locker *Locker, options ...AcquireOption) *lease {
	t.Helper()
	lock, err := take(locker, t.Context(), options...)
	must(t, err)
	return lock.lease
}

func TestALockThatNobodyCanReachIsGivenBack(t *testing.T) {
	for name, take := range kindsOfLocks {
		for who, listens := range map[string]bool{"with a hook": true, "without hooks": false} {
			bubble(t, name+" "+who, func(t *testing.T) {
				var events []Event
				var ends []HoldEnd
				var options []Option
				if listens {
					options = append(options, WithHooks(Hooks{
						Node: func(e Event) {
							if e.Kind == LockForgotten {
								events = append(events, e)
							}
						},
						HoldEnd: func(_ context.Context, h HoldEnd) { ends = append(ends, h) },
					}))
				}
				locker, fakes := newLocker(t, 3, options...)
				forgotten := careless(t, take, locker, WithRenewal())
				time.Sleep(time.Minute) // six TTLs, unless a garbage collection has come before
				collect(t, forgotten)
				time.Sleep(2 * time.Second)
				empty(t, locker)
				synctest.Wait()
				wantFree(t, fakes, "k")
				if listens && (len(events) != 1 || !strings.Contains(events[0].Err.Error(), "_test.go:") && !strings.Contains(events[0].Err.Error(), "convert.go:") || events[0].Lasted <= 0) {
					t.Errorf("the events are %v, want one that says where it was acquired", events)
				}
				if listens && ends[len(ends)-1].Reason != "forgotten" {
					t.Errorf("the hold has ended with %v", ends)
				}
				lock, err := take(locker, t.Context())
				must(t, err, "what was given back")
				mustRelease(t, lock)
			})
		}
	}
}

func TestALockThatSomebodyMayReachIsKept(t *testing.T) {
	for what, keep := range map[string]func(lock *Lock) any{
		"the lock":                   func(lock *Lock) any { return lock },
		"its context":                func(lock *Lock) any { return lock.Context() },
		"a context with more values": func(lock *Lock) any { return context.WithValue(lock.Context(), lockKey{}, 1) },
		"its release":                func(lock *Lock) any { return lock.Release },
		"its deadline":               func(lock *Lock) any { return lock.Until },
		"a function for its end":     func(lock *Lock) any { return context.AfterFunc(lock.Context(), func() {}) },
	} {
		bubble(t, what, func(t *testing.T) {
			locker, _ := newLocker(t, 3)
			kept, held := kept(t, locker, keep)
			for range 3 {
				runtime.GC()
				time.Sleep(time.Minute)
			}
			if held.hold.Left() <= 0 {
				t.Errorf("a lock of which the program has %s was given back", what)
			}
			runtime.KeepAlive(kept)
		})
	}
}

// Most programs hold a lock by nothing but this.
func TestADeferredReleaseKeepsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		lock, err := locker.Acquire(t.Context(), "k", WithRenewal())
		must(t, err)
		defer lock.Release() //nolint:errcheck // it is about what the defer holds
		for range 3 {
			runtime.GC()
			time.Sleep(time.Minute)
		}
		if token, _ := fakes[0].Token("k"); token == "" {
			t.Error("a lock was given back under a deferred Release")
		}
	})
}

//go:noinline
func kept(t *testing.T, locker *Locker, keep func(lock *Lock) any) (kept any, of *lease) {
	t.Helper()
	lock, err := locker.Acquire(t.Context(), "k", WithRenewal())
	must(t, err)
	return keep(lock), lock.lease
}

func TestAForgottenLockOfAFixedLeaseEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		fixed := careless(t, kindsOfLocks["an exclusive lock"], locker, WithTTL(time.Minute))
		collect(t, fixed)
		time.Sleep(50 * time.Second)
		if fixed.hold.Left() <= 0 {
			t.Error("it was given back before its lease was over")
		}
	})
}

func TestForgottenLocksDoNotFloodTheDefaultLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := defaultLog(t, slog.NewJSONHandler)
		locker, _ := newLocker(t, 3)
		for i := range 2 * logBurst {
			mustAcquire(t, locker, fmt.Sprint("k", i)).reclaim()
		}
		synctest.Wait()
		if all := records(t, log); len(all) != logBurst {
			t.Errorf("%d forgotten locks are %d records, want %d", 2*logBurst, len(all), logBurst)
		}
	})
}

func TestStatsAndLocksSayHowOldLocksAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		first := mustAcquire(t, locker, "first", WithRenewal())
		time.Sleep(time.Minute)
		mustAcquire(t, locker, "second")
		for lock := range locker.Locks() {
			if age := lock.Age(); (age >= time.Minute) != (lock.Key() == "first") {
				t.Errorf("%v is %v old", lock, age)
			}
		}
		if s := locker.Stats(); s.OldestLock < time.Minute || s.OldestLock > time.Minute+time.Second {
			t.Errorf("the oldest lock is %v old, want a minute", s.OldestLock)
		}
		mustRelease(t, first)
		if s := locker.Stats(); s.OldestLock > time.Second {
			t.Errorf("the oldest lock is %v old, want none of before", s.OldestLock)
		}
	})
}
