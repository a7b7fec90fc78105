package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// work waits for a key under the context of a lock, in a goroutine, and then releases what it has
// got.
func work(t *testing.T, held *Lock, wants string) (result chan error) {
	t.Helper()
	result = make(chan error, 1)
	go func() {
		lock, err := held.locker.Acquire(held.Context(), wants, WithMaxWait(time.Minute))
		if err == nil {
			err = lock.Release()
		}
		mustRelease(t, held)
		result <- err
	}()
	synctest.Wait()
	return result
}

// wantRing fails the test unless an error shows a ring of so many waits, each under the lock of "who has" its key.
func wantRing(t *testing.T, err error, size int) {
	t.Helper()
	var ring *DeadlockError
	if !errors.Is(err, ErrDeadlock) || !errors.Is(err, ErrTaken) || !errors.As(err, &ring) || len(ring.Cycle) != size {
		t.Fatalf("in a ring of %d, Acquire = %v, want a DeadlockError with all of them", size, err)
	}
	for i, wait := range ring.Cycle {
		if next := ring.Cycle[(i+1)%size]; wait.WaitsFor != next.Holds || wait.Owner != "who has "+wait.Holds {
			t.Errorf("the ring %v does not close, or names the wrong owners", ring)
		}
		if !strings.Contains(err.Error(), fmt.Sprintf("%s, who holds %q, waits for %q", wait.Owner, wait.Holds, wait.WaitsFor)) {
			t.Errorf("the error does not show %v: %v", wait, err)
		}
	}
}

func TestLocksThatWaitForEachOtherAreADeadlock(t *testing.T) {
	for size := 2; size <= 5; size++ {
		synctest.Test(t, func(t *testing.T) {
			locker, _ := newLocker(t, 3, WithTTL(time.Hour))
			key := func(i int) string { return fmt.Sprint("fork ", i%size) }
			began := time.Now()
			var held []*Lock
			for i := range size {
				held = append(held, mustAcquire(t, locker, key(i), WithOwner("who has "+key(i))))
			}
			var results []chan error
			for i, lock := range held {
				results = append(results, work(t, lock, key(i+1)))
			}
			failed := 0
			for _, result := range results {
				err := <-result
				if err == nil {
					continue
				}
				failed++
				wantRing(t, err, size)
			}
			if failed != 1 {
				t.Errorf("in a ring of %d, %d acquires gave up, want one", size, failed)
			}
			wantWithin(t, time.Second, began, "it took")
		})
	}
}

// The first waiter does not know yet who has the key: it learns that by a try, when the ring is
// closed already.
func TestADeadlockIsFoundWhenTheHolderIsSeenToChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
		other := another(t, fakes)
		foreign := mustAcquire(t, other, "b")
		first := work(t, mustAcquire(t, locker, "a"), "b") // waits for a lock of another Locker
		for _, f := range fakes {                          // nobody is told of the release
			f.Change(func(f *fakeNode) { f.Deaf = true })
		}
		mustRelease(t, foreign)
		second := work(t, mustAcquire(t, locker, "b"), "a")
		one, two := <-first, <-second
		if errors.Is(one, ErrDeadlock) == errors.Is(two, ErrDeadlock) {
			t.Errorf("the two results are %v and %v, want one deadlock", one, two)
		}
	})
}

func TestWhatDoesNotWorkForALockIsNoPartOfADeadlock(t *testing.T) {
	for name, under := range map[string]func(*testing.T, context.Context) context.Context{
		"a context that never ends": func(_ *testing.T, ctx context.Context) context.Context { return context.WithoutCancel(ctx) },
		"a context of its own":      func(t *testing.T, _ context.Context) context.Context { return t.Context() },
		"a detached one, with an end": func(t *testing.T, ctx context.Context) context.Context {
			return withEnd(t, Detach(context.WithoutCancel(ctx)))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, _ := newLocker(t, 3, WithTTL(time.Hour))
			a, b := mustAcquire(t, locker, "a"), mustAcquire(t, locker, "b")
			results := make(chan error, 2)
			for held, wants := range map[*Lock]string{a: "b", b: "a"} {
				go func() {
					lock, err := locker.Acquire(under(t, held.Context()), wants, WithMaxWait(time.Minute))
					if err == nil {
						err = lock.Release()
					}
					results <- err
				}()
			}
			time.Sleep(10 * time.Second)
			mustRelease(t, a)
			mustRelease(t, b)
			for range 2 {
				noError(t, <-results, "under", name)
			}
		})
	}
}

func withEnd(t *testing.T, ctx context.Context) context.Context { //nolint:revive // as in the standard library, t is first
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	return ctx
}

// A wait that has ended is no part of a ring, and leaves nothing.
func TestAWaitThatWasGivenUpIsNoPartOfADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3, WithTTL(time.Hour))
		a, b := mustAcquire(t, locker, "a"), mustAcquire(t, locker, "b")
		if _, err := locker.Acquire(a.Context(), "b", WithMaxWait(time.Second)); !errors.Is(err, ErrTaken) {
			t.Fatalf("Acquire = %v, want ErrTaken", err)
		}
		if _, err := locker.Acquire(b.Context(), "a", WithMaxWait(time.Second)); !errors.Is(err, ErrTaken) || errors.Is(err, ErrDeadlock) {
			t.Errorf("Acquire after the other wait = %v, want ErrTaken alone", err)
		}
		mustRelease(t, a)
		mustRelease(t, b)
		time.Sleep(time.Minute)
		empty(t, locker)
	})
}

func TestDetachEndsASelfDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		lock := mustAcquire(t, locker, "k")
		detached := Detach(lock.Context())
		if FromContext(detached) != nil {
			t.Error("a detached context carries a lock")
		}
		returns(t, ErrTaken, "TryAcquire under a detached context")(locker.TryAcquire(detached, "k"))
		mustRelease(t, lock)
		returns(t, ErrReleased, "the cause")(context.Cause(detached))
	})
}

// Random rings and chains: with an order of the keys nobody is ever told of a deadlock; without
// one, everybody gets on all the same.
func TestDeadlocksAreFoundAndOnlyThose(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			locker, _ := newLocker(t, 3, WithTTL(time.Hour))
			var found, done int
			results := make(chan error)
			const callers, rounds = 8, 50
			for c := range callers {
				go func() {
					for r := range rounds {
						results <- pair(t, locker, (c*7+r)%5, (c*3+r*r+1)%5, ordered)
					}
				}()
			}
			for range callers * rounds {
				switch err := <-results; {
				case err == nil:
					done++
				case errors.Is(err, ErrDeadlock):
					found++
				default:
					t.Fatal(err)
				}
			}
			if ordered && found > 0 {
				t.Errorf("%d acquires in one order gave up as a deadlock", found)
			}
			if !ordered && (found == 0 || done == 0) {
				t.Errorf("without an order %d gave up and %d got both keys, want some of each", found, done)
			}
			time.Sleep(time.Minute)
			empty(t, locker)
		})
	}
}

// pair takes two keys, the second under the first one's context.
func pair(t *testing.T, locker *Locker, one, two int, ordered bool) error {
	if one == two {
		return nil
	}
	keys := []string{fmt.Sprint(one), fmt.Sprint(two)}
	if ordered {
		slices.Sort(keys)
	}
	a, err := locker.Acquire(t.Context(), keys[0])
	if err != nil {
		return err
	}
	defer func() { _ = a.Release() }()
	time.Sleep(time.Millisecond)
	return passing(locker.Acquire(a.Context(), keys[1]))
}

// Who looks for a deadlock looks at leases under the mutex of those who wait, which a hook may
// want.
func TestWhoLooksForADeadlockEndsNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var machine sleeper
		var locker *Locker
		lost := make(chan int, 1)
		locker, _ = newLocker(t, 3, machine.option(), WithTTL(time.Minute), WithHooks(Hooks{HoldEnd: func(_ context.Context, e HoldEnd) {
			if e.Reason == endLost && e.Key == "slept through" {
				lost <- locker.Stats().Waiting
			}
		}}))
		other := mustAcquire(t, locker, "other", WithTTL(time.Hour))
		mustAcquire(t, locker, "slept through")
		locked := async(func() error {
			_, err := locker.Acquire(t.Context(), "slept through", WithMaxWait(time.Minute))
			return err
		})
		synctest.Wait()
		machine.slept.Store(int64(2 * time.Minute)) // no timer has seen it
		result := work(t, other, "slept through")
		if err := errors.Join(<-locked, <-result); !errors.Is(err, ErrTaken) && err != nil {
			t.Errorf("the waits end with %v", err)
		}
		if waiting := <-lost; waiting > 2 {
			t.Errorf("%d wait at the end of the hold", waiting)
		}
	})
}
