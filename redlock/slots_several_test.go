package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// mustTakeN takes n permits that are free.
func mustTakeN(t *testing.T, s *Semaphore, n int, options ...AcquireOption) *Lock {
	t.Helper()
	p, err := s.TryAcquireN(t.Context(), n, options...)
	must(t, err, "TryAcquireN(", n, ") with as many permits free")
	return p
}

func TestSeveralPermitsAreHadAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s, other := newSemaphore(t, locker, 5), newSemaphore(t, another(t, fakes), 5)
		three := mustTakeN(t, s, 3)
		if slots := three.Slots(); len(slots) != 3 || !slices.IsSorted(slots) || slots[0] == slots[1] || slots[1] == slots[2] {
			t.Errorf("three permits have the slots %v", slots)
		}
		returns(t, ErrTaken, "three of two permits that are left")(other.TryAcquireN(t.Context(), 3))
		synctest.Wait()
		rest := mustTakeN(t, other, 2)
		for _, slot := range rest.Slots() {
			if slices.Contains(three.Slots(), slot) {
				t.Errorf("slot %d has two holders", slot)
			}
		}
		if p, err := s.TryAcquire(t.Context()); !errors.Is(err, ErrTaken) {
			t.Errorf("a sixth permit of five: %v, %v", p, err)
		}
		mustRelease(t, three)
		mustTakeN(t, other, 2)
		mustTake(t, s)
	})
}

func TestSeveralPermitsAreOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 4)
		p := mustTakeN(t, s, 3, WithTTL(10*time.Second))
		must(t, p.Extend(t.Context(), time.Hour))
		synctest.Wait()
		for _, slot := range p.Slots() {
			if _, left := fakes[0].Token(fmt.Sprintf("ql:slot:{s}%d", slot)); left != time.Hour {
				t.Errorf("after an extension to an hour slot %d is held for %v", slot, left)
			}
		}
		if _, left := fakes[0].Token("ql:permits:{s}"); left != 2*time.Hour {
			t.Errorf("the number of permits is kept for %v, want two hours", left)
		}
		wantHeld(t, p, true)
		// One of the slots is lost at a majority: no extension succeeds.
		plant(fakes[:2], fmt.Sprintf("ql:slot:{s}%d", p.Slots()[1]), "theirs", 3*time.Hour)
		wantHeld(t, p, false)
		returns(t, ErrLost, "with a slot lost Extend")(p.Extend(t.Context(), 2*time.Hour))
		_ = p.Release() // it may have been lost
		synctest.Wait()
		for _, slot := range []int{p.Slots()[0], p.Slots()[2]} {
			wantFree(t, fakes, fmt.Sprintf("ql:slot:{s}%d", slot))
		}
	})
}

func TestSeveralPermitsHaveOneFenceBehindThoseOfAllTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3, WithFences())
		s := newSemaphore(t, locker, 3)
		last := make([]int64, 3)
		for i := range 30 {
			var slots []int
			var fence int64
			var release func() error
			if i%3 == 0 {
				p := mustTake(t, s)
				slots, fence, release = []int{p.Slots()[0]}, p.Fence(), p.Release
			} else {
				p := mustTakeN(t, s, 2)
				slots, fence, release = p.Slots(), p.Fence(), p.Release
			}
			for _, slot := range slots {
				if fence <= last[slot] {
					t.Errorf("slot %d has the fence %d behind %d", slot, fence, last[slot])
				}
				last[slot] = fence
			}
			must(t, release())
			synctest.Wait()
		}
	})
}

// Two that have half of what they want each would wait for each other for ever.
func TestNobodyHoldsPermitsWhileItWaitsForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 4)
		held := []*Lock{mustTake(t, s, WithTTL(time.Hour)), mustTake(t, s, WithTTL(time.Hour))}
		var all sync.WaitGroup
		for range 2 {
			of := newSemaphore(t, another(t, fakes), 4)
			all.Go(func() {
				p, err := of.AcquireN(t.Context(), 3)
				if err != nil {
					t.Errorf("AcquireN = %v", err)
					return
				}
				time.Sleep(time.Second)
				noError(t, p.Release())
			})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i := range 4 {
			key := fmt.Sprintf("ql:slot:{s}%d", i)
			for _, f := range fakes {
				if token, _ := f.Token(key); token != "" && token != held[0].Token() && token != held[1].Token() {
					t.Errorf("who waits for three permits holds %s", key)
				}
			}
		}
		began := time.Now()
		for _, p := range held {
			mustRelease(t, p)
		}
		all.Wait()
		wantWithin(t, 5*time.Second, began, "two that want three of four permits for a second each took")
	})
}

func TestWhoWaitsForOnePermitStandsInLineBesideWhoWantsSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		mustTakeN(t, s, 2, WithTTL(time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		time.Sleep(time.Second) // the clock of the test begins with 0, which is no time to the library
		all.Go(func() { _, _ = s.AcquireN(ctx, 2) })
		time.Sleep(time.Second)
		all.Go(func() { _, _ = s.Acquire(ctx) })
		time.Sleep(500 * time.Millisecond) // where nobody else stood it would not yet
		if tickets := inLineOf(fakes, "ql:pool:{s}"); tickets != "sx" {
			t.Errorf("one that wants two permits and one that wants one stand in line as %q", tickets)
		}
		cancel()
		all.Wait()
	})
}

// A wait for several permits waits for the very permit that somebody works under, but not for a
// lock.
func TestWhoWorksUnderAPermitHeedsNobodyWhoWaitsForSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := newLocker(t, 3, WithTTL(time.Hour))
		waits, works := newSemaphore(t, another(t, fakes, WithTTL(time.Hour)), 4), newSemaphore(t, another(t, fakes, WithTTL(time.Hour)), 4)
		held, err := works.AcquireN(t.Context(), 2)
		must(t, err)
		served := async(func() error { return passing(waits.AcquireN(t.Context(), 4)) })
		time.Sleep(500 * time.Millisecond) // from a tenth of a second on the others are kept for it
		returns(t, ErrTaken, "TryAcquire of a permit that is kept for another")(works.TryAcquire(t.Context()))
		lock := mustAcquire(t, works.locker, "x")
		returns(t, ErrTaken, "TryAcquire under a lock")(works.TryAcquire(lock.Context()))
		permit, err := works.TryAcquire(held.Context())
		must(t, err, "TryAcquire under permits")
		noError(t, permit.Release())
		mustRelease(t, lock)
		noError(t, held.Release())
		noError(t, <-served)
	})
}

// Nobody announces that a lease has ended: who is first finds it, and those behind it have to be
// told.
func TestPermitsThatAreLeftOverGoToTheNextInLineAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		all, err := newSemaphore(t, another(t, fakes), 8).AcquireN(t.Context(), 8)
		must(t, err)
		must(t, all.Abandon())
		s := newSemaphore(t, locker, 8)
		served := make(chan error, 4)
		for range 4 {
			go func() {
				_, err := s.AcquireN(t.Context(), 2)
				served <- err
			}()
			time.Sleep(10 * time.Millisecond)
		}
		var first time.Time
		for i := range 4 {
			must(t, <-served)
			if i == 0 {
				first = time.Now()
			}
			wantWithin(t, 20*time.Millisecond, first, "waiter", i+1, "for two of eight permits is served")
		}
	})
}
