package redlock

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/test/fakenode"
)

// napping makes the machine sleep once for a minute, while the answers of all nodes to the
// command are on their way: a vote that leaves later counts from the moment at which it leaves.
func (s *sleeper) napping(fakes []*fakeNode, command string) {
	var arrived atomic.Int32
	all, count := make(chan struct{}), int32(len(fakes)) //nolint:gosec // some
	before(fakes, "", func(_ *fakeNode, args []any) {
		if fakenode.CommandName(args) != command {
			return
		}
		switch n := arrived.Add(1); {
		case n < count:
			<-all
		case n == count:
			s.sleep(time.Minute)
			close(all)
		}
	})
}

// The clock was read less than a millisecond before the machine went to sleep.
func TestAnExtensionDoesNotCountAfterASleepThatTheLastReadingHasNotSeen(t *testing.T) {
	for _, mode := range []string{"", "redis_mode:cluster\r\n"} { // where extensions go one by one
		synctest.Test(t, func(t *testing.T) {
			var machine sleeper
			locker, fakes := newLocker(t, 3, machine.option())
			changeAll(fakes, func(f *fakeNode) { f.Info += mode })
			warm(t, locker)
			lock := mustAcquire(t, locker, "k")
			machine.napping(fakes, "EVALSHA")
			returns(t, ErrLost, "mode", mode, "its votes came 50s after the deadline")(lock.Extend(t.Context(), 10*time.Minute))
			if lock.Valid() {
				t.Errorf("mode %q: the lock is valid again, 50s after its deadline", mode)
			}
		})
	}
}

// A lock whose lease is over must not be given out, nor its fence, which counts at a store.
func TestALockIsNotGivenOutAfterASleepThatTheLastReadingHasNotSeen(t *testing.T) {
	for command, options := range map[string][]Option{"SET": nil, "ZADD": {WithFences()}} {
		synctest.Test(t, func(t *testing.T) {
			var machine sleeper
			locker, fakes := newLocker(t, 3, append(options, machine.option())...)
			mustRelease(t, mustAcquire(t, locker, "k"))
			machine.napping(fakes, command)
			if lock, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrExpired) {
				t.Errorf("TryAcquire with a sleep behind %s = %v, %v, want ErrExpired: its lease is over", command, lock, err)
			}
		})
	}
}

// The process was stopped, or the machine slept: no timer has fired yet.
func TestAContextTellsItsEndBeforeATimerDoes(t *testing.T) {
	type key struct{}
	for whose, of := range map[string]func(t *testing.T, lock *Lock) context.Context{
		"a lock": func(_ *testing.T, lock *Lock) context.Context { return lock.Context() },
		"one that carries more": func(_ *testing.T, lock *Lock) context.Context {
			return context.WithValue(lock.Context(), key{}, 1)
		},
	} {
		for how, over := range map[string]func(ctx context.Context) bool{
			"Err":   func(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) },
			"Cause": func(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrLost) },
			"Done": func(ctx context.Context) bool {
				select {
				case <-ctx.Done():
					return true
				default:
					return false
				}
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				var machine sleeper
				locker, _ := newLocker(t, 3, machine.option())
				lock := mustAcquire(t, locker, "k", WithTTL(10*time.Second))
				ctx := of(t, lock)
				machine.sleep(5 * time.Second)
				must(t, lock.Extend(t.Context(), 10*time.Second))
				machine.sleep(9 * time.Second)
				if over(ctx) || ctx.Err() != nil {
					t.Errorf("%s: the context of %s has ended with %v before the deadline", how, whose, ctx.Err())
				}
				machine.sleep(time.Second)
				if !over(ctx) {
					t.Errorf("%s: the context of %s goes on behind the deadline", how, whose)
				}
				if lock.Valid() || !errors.Is(lock.Extend(t.Context(), time.Minute), ErrLost) {
					t.Errorf("%s: a lease of 10s runs on behind its deadline", how)
				}
				if ctx.Err() == nil || !errors.Is(context.Cause(ctx), ErrLost) {
					t.Errorf("%s: the context of %s has ended with %v, %v, want ErrLost", how, whose, ctx.Err(), context.Cause(ctx))
				}
			})
		}
	}
}

func TestWhatIsDerivedFromALocksContextEndsWithItAndCostsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var machine sleeper
		locker, _ := newLocker(t, 3, machine.option())
		held := mustAcquire(t, locker, "k", WithTTL(10*time.Second)).Context()
		before := runtime.NumGoroutine()
		var derived []context.Context
		for range 100 {
			ctx, cancel := context.WithTimeout(held, time.Hour)
			defer cancel()
			derived = append(derived, ctx)
		}
		if more := runtime.NumGoroutine() - before; more >= len(derived) {
			t.Errorf("%d derived contexts have started %d goroutines", len(derived), more)
		}
		machine.sleep(time.Minute)
		if held.Err() == nil {
			t.Error("the lock's context goes on behind the deadline")
		}
		for i, ctx := range derived {
			if !errors.Is(context.Cause(ctx), ErrLost) {
				t.Fatalf("derived context %d has ended with %v, want ErrLost", i, context.Cause(ctx))
			}
		}
	})
}

// Who hands a lock over asks the contexts of those who wait, under the mutex that a hook may want.
func TestAContextThatIsFoundOverCallsNoHookOnTheGoroutineThatAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var machine sleeper
		var locker *Locker
		lost := make(chan int, 1)
		locker, _ = newLocker(t, 3, machine.option(), WithTTL(time.Hour), WithHooks(Hooks{HoldEnd: func(_ context.Context, e HoldEnd) {
			if e.Reason == endLost {
				lost <- locker.Stats().Waiting
			}
		}}))
		other := mustAcquire(t, locker, "other")
		short := mustAcquire(t, locker, "slept through", WithTTL(time.Minute))
		waits := async(func() error { _, err := locker.Acquire(short.Context(), "other"); return err })
		synctest.Wait()
		machine.sleep(2 * time.Minute)
		mustRelease(t, other)
		returns(t, ErrLost, "a wait under a lock that is lost")(<-waits)
		<-lost
	})
}
