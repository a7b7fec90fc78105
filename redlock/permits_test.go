package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// mustTakeN takes n permits that are free.
func mustTakeN(t *testing.T, s *Semaphore, n int, options ...AcquireOption) *Permits {
	t.Helper()
	p, err := s.TryAcquireN(t.Context(), n, options...)
	if err != nil {
		t.Fatalf("TryAcquireN(%d) with as many permits free = %v", n, err)
	}
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
		if _, err := other.TryAcquireN(t.Context(), 3); !errors.Is(err, ErrTaken) {
			t.Errorf("three of two permits that are left: %v, want ErrTaken", err)
		}
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
		if err := three.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustTakeN(t, other, 2)
		mustTake(t, s)
		if text := fmt.Sprintf("%v %#v", rest, rest); strings.Contains(text, rest.Token()) || !strings.Contains(text, `slots [`) {
			t.Errorf("as text permits are %s", text)
		}
	})
}

func TestSeveralPermitsAreOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 4)
		p := mustTakeN(t, s, 3, WithTTL(10*time.Second))
		if err := p.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, slot := range p.Slots() {
			if _, left := fakes[0].token(fmt.Sprintf("ql:slot:{s}%d", slot)); left != time.Hour {
				t.Errorf("after an extension to an hour slot %d is held for %v", slot, left)
			}
		}
		if _, left := fakes[0].token("ql:permits:{s}"); left != 2*time.Hour {
			t.Errorf("the number of permits is kept for %v, want two hours", left)
		}
		if held, err := p.Held(t.Context()); !held || err != nil {
			t.Errorf("Held = %v, %v", held, err)
		}
		// One of the slots is lost at a majority: no extension succeeds.
		for _, f := range fakes[:2] {
			f.plant(fmt.Sprintf("ql:slot:{s}%d", p.Slots()[1]), "theirs", 3*time.Hour)
		}
		if held, err := p.Held(t.Context()); held || err != nil {
			t.Errorf("with a slot lost Held = %v, %v", held, err)
		}
		if err := p.Extend(t.Context(), 2*time.Hour); !errors.Is(err, ErrLost) {
			t.Errorf("with a slot lost Extend = %v, want ErrLost", err)
		}
		ctx := p.Context()
		if err := p.Release(t.Context()); err != nil && !errors.Is(err, ErrLost) {
			t.Errorf("Release = %v", err)
		}
		synctest.Wait()
		for _, slot := range p.Slots() {
			for _, f := range fakes {
				if token, _ := f.token(fmt.Sprintf("ql:slot:{s}%d", slot)); token == p.Token() {
					t.Errorf("after the release slot %d is held at %s", slot, f.name)
				}
			}
		}
		if !errors.Is(context.Cause(ctx), ErrReleased) {
			t.Errorf("the context's cause is %v", context.Cause(ctx))
		}
	})
}

func TestSeveralPermitsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		p := mustTakeN(t, newSemaphore(t, locker, 4), 2, WithRenewal())
		time.Sleep(time.Hour)
		for _, slot := range p.Slots() {
			if token, _ := fakes[0].token(fmt.Sprintf("ql:slot:{s}%d", slot)); token != p.Token() || !p.Valid() {
				t.Errorf("after an hour of renewals slot %d is not held", slot)
			}
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
			var release func(context.Context) error
			if i%3 == 0 {
				p := mustTake(t, s)
				slots, fence, release = []int{p.Slot()}, p.Fence(), p.Release
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
			if err := release(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
	})
}

func TestAWrongNumberOfPermitsIsRefusedBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 3)
		for _, n := range []int{-1, 0, 4, 1 << 40} {
			_, err := s.AcquireN(t.Context(), n)
			_, again := s.TryAcquireN(t.Context(), n)
			for _, err := range []error{err, again} {
				var option *OptionError
				if !errors.Is(err, ErrOption) || !errors.As(err, &option) || option.Option != "n" || !strings.Contains(err.Error(), fmt.Sprint(n)) {
					t.Errorf("%d of 3 permits: %v, want an OptionError for n", n, err)
				}
			}
		}
		if _, err := s.AcquireN(t.Context(), 2, WithToken("mine")); !errors.Is(err, ErrOption) {
			t.Errorf("with a token of one's own: %v, want ErrOption", err)
		}
		if sent := fakes[0].count("EVAL") + fakes[0].count("EVALSHA"); sent != 0 {
			t.Errorf("%d scripts were sent", sent)
		}
	})
}

func TestAContextThatCarriesTooManyPermitsCannotWaitForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		s := newSemaphore(t, locker, 5)
		p := mustTakeN(t, s, 3, WithTTL(time.Hour))
		if _, err := s.AcquireN(p.Context(), 3); !errors.Is(err, ErrDeadlock) {
			t.Errorf("three more of five under three: %v, want ErrDeadlock", err)
		}
		more, err := s.AcquireN(p.Context(), 2)
		if err != nil {
			t.Fatalf("two more of five under three: %v", err)
		}
		if _, err := s.Acquire(more.Context()); !errors.Is(err, ErrDeadlock) {
			t.Errorf("one more of five under five: %v, want ErrDeadlock", err)
		}
	})
}

func TestAnotherNumberOfPermitsIsRefusedToWhoWantsSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mustTake(t, newSemaphore(t, locker, 3))
		if _, err := newSemaphore(t, another(t, fakes), 4).AcquireN(t.Context(), 2); !errors.Is(err, ErrPermits) {
			t.Errorf("AcquireN where others count another number = %v, want ErrPermits", err)
		}
	})
}

// Two that have half of what they want each would wait for each other for ever.
func TestNobodyHoldsPermitsWhileItWaitsForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 4)
		held := []*Permit{mustTake(t, s, WithTTL(time.Hour)), mustTake(t, s, WithTTL(time.Hour))}
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
				if err := p.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			})
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for i := range 4 {
			key := fmt.Sprintf("ql:slot:{s}%d", i)
			for _, f := range fakes {
				if token, _ := f.token(key); token != "" && token != held[0].Token() && token != held[1].Token() {
					t.Errorf("who waits for three permits holds %s", key)
				}
			}
		}
		began := time.Now()
		for _, p := range held {
			if err := p.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		all.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("two that want three of four permits for a second each took %v", took)
		}
	})
}

func TestWhoWantsManyPermitsIsServedBesideManyWhoWantOne(t *testing.T) {
	for _, processes := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.delay, f.jitter = time.Millisecond, 200*time.Microsecond })
			}
			crowd := weightedCrowd{lockers: []*Locker{locker}, callers: 24, permits: 10, least: 1, most: 1, hold: 20 * time.Millisecond, last: 4 * time.Second, under: processes > 1}
			for range processes - 1 {
				crowd.lockers = append(crowd.lockers, another(t, fakes))
			}
			large := newSemaphore(t, another(t, fakes), 10)
			if processes == 1 {
				large = newSemaphore(t, locker, 10)
			}
			served, longest := 0, time.Duration(0)
			var all sync.WaitGroup
			all.Go(func() {
				for end := time.Now().Add(crowd.last); time.Now().Before(end); {
					began := time.Now()
					p, err := large.AcquireN(t.Context(), 10)
					if err != nil {
						t.Errorf("AcquireN = %v", err)
						return
					}
					served, longest = served+1, max(longest, time.Since(began))
					crowd.enter(t, p.Slots())
					time.Sleep(20 * time.Millisecond)
					crowd.leave(p.Slots())
					if err := p.Release(t.Context()); err != nil {
						t.Errorf("Release = %v", err)
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
			waits := crowd.run(t)
			all.Wait()
			n := len(waits)
			if served < 10 || longest > time.Second {
				t.Errorf("beside %d processes who want one of 10 permits each, who wants all 10 was served %d times, after %v at the latest", processes, served, longest)
			}
			t.Logf("%d processes: all 10 permits %d times, at most after %v; one %d times, median %v, at most after %v", processes, served, longest, n, waits[n/2], waits[n-1])
		})
	}
}

func TestEverybodyWhoTakesPermitsOfAnyWeightIsServed(t *testing.T) {
	for _, processes := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.delay, f.jitter = time.Millisecond, 200*time.Microsecond })
			}
			crowd := weightedCrowd{lockers: []*Locker{locker}, callers: 32, permits: 10, least: 1, most: 10, hold: 20 * time.Millisecond, last: 4 * time.Second}
			for range processes - 1 {
				crowd.lockers = append(crowd.lockers, another(t, fakes))
			}
			waits := crowd.run(t)
			n := len(waits)
			if bound := 2 * time.Second; waits[n-1] > bound || n < 120 {
				t.Errorf("with %d processes one of %d acquires has waited for %v, want %v at the most, and 30 a second", processes, n, waits[n-1], bound)
			}
			t.Logf("%d processes: %d acquires, median %v, 99%% %v, most %v; %.1f tries each",
				processes, n, waits[n/2], waits[n*99/100], waits[n-1], float64(fakes[0].count("EVALSHA")+fakes[0].count("EVAL"))/float64(n))
		})
	}
}

// A weightedCrowd is callers that take random numbers of permits over and over, and how they fared. Who wants
// one takes it by Acquire or AcquireN.
type weightedCrowd struct {
	lockers     []*Locker
	callers     int
	permits     int
	least, most int
	hold        time.Duration // up to so long
	last        time.Duration
	under       bool // each works under a lock of its own

	mu     sync.Mutex
	inside [MaxPermits]bool
}

// enter notes that somebody works under the slots.
func (c *weightedCrowd) enter(t *testing.T, slots []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, slot := range slots {
		if c.inside[slot] {
			t.Errorf("slot %d has two holders", slot)
		}
		c.inside[slot] = true
	}
}

// leave notes that he does not any more.
func (c *weightedCrowd) leave(slots []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, slot := range slots {
		c.inside[slot] = false
	}
}

// run lets the crowd go, and returns how long each acquire waited, in order.
func (c *weightedCrowd) run(t *testing.T) (waits []time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	end := time.Now().Add(c.last)
	for i := range c.callers {
		s := newSemaphore(t, c.lockers[i%len(c.lockers)], c.permits)
		all.Go(func() {
			ctx := t.Context()
			if c.under {
				own := mustAcquireUnder(t.Context(), t, s.locker, fmt.Sprint("own", i))
				defer mustRelease(t, own)
				ctx = own.Context()
			}
			for time.Now().Before(end) {
				n := c.least + rand.N(c.most-c.least+1) //nolint:gosec // no secret
				began := time.Now()
				var slots []int
				var release func(context.Context) error
				if n == 1 && i%2 == 0 {
					p, err := s.Acquire(ctx)
					if err != nil {
						t.Errorf("Acquire = %v", err)
						return
					}
					slots, release = []int{p.Slot()}, p.Release
				} else {
					p, err := s.AcquireN(ctx, n)
					if err != nil {
						t.Errorf("AcquireN(%d) = %v", n, err)
						return
					}
					slots, release = p.Slots(), p.Release
				}
				c.mu.Lock()
				waits = append(waits, time.Since(began))
				c.mu.Unlock()
				if len(slots) != n {
					t.Errorf("who wants %d permits has the slots %v", n, slots)
				}
				c.enter(t, slots)
				time.Sleep(rand.N(c.hold)) //nolint:gosec // as above
				c.leave(slots)
				if err := release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			}
		})
	}
	all.Wait()
	slices.Sort(waits)
	return waits
}

func TestWhoWaitsForOnePermitLeavesAMarkBesideWhoWantsSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		mustTakeN(t, s, 2, WithTTL(time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _ = s.Acquire(ctx) })
		time.Sleep(time.Second)
		all.Go(func() { _, _ = s.AcquireN(ctx, 2) })
		marks := map[string]bool{}
		for range 300 {
			time.Sleep(50 * time.Millisecond)
			if mark, _ := fakes[0].token("ql:wanted:{s}"); mark != "" {
				marks[mark[strings.LastIndexByte(mark, ' '):]] = true
			}
		}
		cancel()
		all.Wait()
		if len(marks) != 2 {
			t.Errorf("one that wants two permits and one that wants one have left marks of %d names, want 2", len(marks))
		}
	})
}

// A wait for several permits waits for the very permit that somebody works under, but not for a lock.
func TestWhoWorksUnderAPermitHeedsNobodyWhoWaitsForSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fakes := newLocker(t, 3, WithTTL(time.Hour))
		waits, works := newSemaphore(t, another(t, fakes, WithTTL(time.Hour)), 4), newSemaphore(t, another(t, fakes, WithTTL(time.Hour)), 4)
		held, err := works.AcquireN(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() {
			all, err := waits.AcquireN(t.Context(), 4)
			if err == nil {
				err = all.Release(t.Context())
			}
			served <- err
		}()
		time.Sleep(500 * time.Millisecond) // from a tenth of a second on the others are kept for it
		if _, err := works.TryAcquire(t.Context()); !errors.Is(err, ErrTaken) {
			t.Errorf("TryAcquire of a permit that is kept for another = %v, want ErrTaken", err)
		}
		lock := mustAcquire(t, works.locker, "x")
		if _, err := works.TryAcquire(lock.Context()); !errors.Is(err, ErrTaken) {
			t.Errorf("TryAcquire under a lock = %v, want ErrTaken", err)
		}
		permit, err := works.TryAcquire(held.Context())
		if err != nil {
			t.Fatalf("TryAcquire under permits = %v, want the permit", err)
		}
		if err := permit.Release(t.Context()); err != nil {
			t.Error(err)
		}
		mustRelease(t, lock)
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// Nobody announces that a lease has ended: who is first finds it, and those behind it have to be told.
func TestPermitsThatAreLeftOverGoToTheNextInLineAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		all, err := newSemaphore(t, another(t, fakes), 4).AcquireN(t.Context(), 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := all.Abandon(); err != nil {
			t.Fatal(err)
		}
		s := newSemaphore(t, locker, 4)
		served := make(chan error, 4)
		for range 4 {
			go func() {
				_, err := s.AcquireN(t.Context(), 1)
				served <- err
			}()
			time.Sleep(10 * time.Millisecond)
		}
		var first time.Time
		for i := range 4 {
			if err := <-served; err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = time.Now()
			}
			if late := time.Since(first); late > 20*time.Millisecond {
				t.Errorf("waiter %d for one of four permits is served %v behind the first, want at once", i+1, late)
			}
		}
	})
}
