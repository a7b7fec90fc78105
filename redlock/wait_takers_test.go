package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Takers are callers that take keys or permits over and over, and what they hold.
type takers struct {
	lockers []*Locker
	fakes   []*fakeNode
	callers int
	hold    time.Duration // up to so long
	last    time.Duration
	under   bool // each works under a lock of its own
	take    taking

	mu     sync.Mutex
	inside map[string]bool // keys and slots
}

// Taking is how a caller takes some.
type taking func(ctx context.Context, l *Locker, caller int) (*Lock, error)

// someKeys takes from least to most random keys.
func someKeys(keys, least, most int) taking {
	return func(ctx context.Context, l *Locker, _ int) (*Lock, error) {
		var names []string
		for _, k := range rand.Perm(keys)[:least+rand.N(most-least+1)] { //nolint:gosec // no secret
			names = append(names, fmt.Sprintf("key%02d", k))
		}
		if len(names) == 1 {
			return l.Acquire(ctx, names[0])
		}
		return l.AcquireAll(ctx, names)
	}
}

// somePermits takes from least to most permits, one by Acquire or AcquireN.
func somePermits(permits, least, most int) taking {
	return func(ctx context.Context, l *Locker, caller int) (*Lock, error) {
		s, err := l.Semaphore("s", permits)
		if err != nil {
			return nil, err
		}
		n := least + rand.N(most-least+1) //nolint:gosec // no secret
		if n == 1 && caller%2 == 0 {
			return s.Acquire(ctx)
		}
		lock, err := s.AcquireN(ctx, n)
		if err == nil && len(lock.Slots()) != n {
			err = fmt.Errorf("who wants %d permits has the slots %v", n, lock.Slots())
		}
		return lock, err
	}
}

// newTakers returns some in so many processes, over five nodes that are 1ms away.
func newTakers(t *testing.T, processes int, c *takers, options ...Option) *takers {
	c.last = time.Duration(some(int(c.last)))
	locker, fakes := newLocker(t, 5, options...)
	changeAll(fakes, func(f *fakeNode) { f.Delay, f.Jitter = time.Millisecond, 200*time.Microsecond })
	c.fakes, c.lockers, c.inside = fakes, []*Locker{locker}, map[string]bool{}
	for range processes - 1 {
		c.lockers = append(c.lockers, another(t, fakes, options...))
	}
	return c
}

// once takes, holds and releases, and returns how long it waited.
func (c *takers) once(ctx context.Context, t *testing.T, l *Locker, caller int, take taking) (waited time.Duration, ok bool) {
	began := time.Now()
	lock, err := take(ctx, l, caller)
	if err != nil {
		t.Errorf("an acquire = %v", err)
		return 0, false
	}
	waited = time.Since(began)
	has := slices.Clone(lock.Keys())
	for _, slot := range lock.Slots() {
		has = append(has, fmt.Sprint("slot ", slot))
	}
	if len(lock.Slots()) > 0 {
		has = has[1:] // the semaphore
	}
	note := func(enters bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, name := range has {
			if enters && c.inside[name] {
				t.Errorf("%q has two holders", name)
			}
			c.inside[name] = enters
		}
	}
	note(true)
	time.Sleep(rand.N(c.hold)) //nolint:gosec // no secret
	note(false)
	noError(t, lock.Release())
	return waited, true
}

// run lets them go, and returns how long each acquire waited, in order.
func (c *takers) run(t *testing.T) (waits []time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	end := time.Now().Add(c.last)
	for i := range c.callers {
		l := c.lockers[i%len(c.lockers)]
		all.Go(func() {
			ctx := t.Context()
			if c.under {
				own := mustAcquireUnder(t.Context(), t, l, fmt.Sprint("own", i))
				defer mustRelease(t, own)
				ctx = own.Context()
			}
			for ok := true; ok && time.Now().Before(end); {
				var waited time.Duration
				if waited, ok = c.once(ctx, t, l, i, c.take); ok {
					c.mu.Lock()
					waits = append(waits, waited)
					c.mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	slices.Sort(waits)
	n := len(waits)
	t.Logf("%d processes: %d acquires, median %v, 99%% %v, most %v; %.1f tries each",
		len(c.lockers), n, waits[n/2], waits[n*99/100], waits[n-1], float64(c.fakes[0].Count("EVALSHA")+c.fakes[0].Count("EVAL"))/float64(n))
	return waits
}

// everybody fails the test if one of the callers waits for longer, or fewer acquires come to pass
// in a second.
func (c *takers) everybody(t *testing.T, bound time.Duration, least int) {
	t.Helper()
	waits := c.run(t)
	if n := len(waits); waits[n-1] > bound || n < int(float64(least)*c.last.Seconds()) {
		t.Errorf("with %d processes one of %d acquires of %d callers has waited for %v, want %v at the most, and %d a second", len(c.lockers), n, c.callers, waits[n-1], bound, least)
	}
}

// beside fails the test if who wants many is not served beside them.
func (c *takers) beside(t *testing.T, l *Locker, pause time.Duration, many taking) {
	t.Helper()
	served, longest := 0, time.Duration(0)
	var large sync.WaitGroup
	large.Go(func() {
		for end := time.Now().Add(c.last); time.Now().Before(end); time.Sleep(pause) {
			waited, ok := c.once(t.Context(), t, l, 0, many)
			if !ok {
				return
			}
			served, longest = served+1, max(longest, waited)
		}
	})
	c.run(t)
	large.Wait()
	if served < int(c.last/(400*time.Millisecond)) || longest > time.Second {
		t.Errorf("beside %d processes with %d callers, who wants many was served %d times in %v, after %v at the latest", len(c.lockers), c.callers, served, c.last, longest)
	}
}

func TestSetsThatOverlapExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTakers(t, 3, &takers{callers: 24, hold: 4 * time.Millisecond, last: time.Second, take: someKeys(6, 1, 3)}, WithTTL(5*time.Second))
		c.everybody(t, time.Second, 100)
		time.Sleep(2 * time.Second)
		for i, l := range c.lockers {
			if left := l.board.Keys.Left(); left.States+left.Awaited+left.Users > 0 {
				t.Errorf("locker %d: all is over, and its keys have %+v", i, left)
			}
		}
		if left := leftAt(c.fakes, "key"); left != nil {
			t.Error(left)
		}
	})
}

func TestEverybodyWhoTakesSeveralKeysIsServed(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			c := newTakers(t, processes, &takers{callers: 64, hold: 10 * time.Millisecond, last: 5 * time.Second, take: someKeys(32, 2, 8)})
			c.everybody(t, 64*(c.hold+20*time.Millisecond), 100)
		})
	}
}

func TestEverybodyWhoTakesPermitsOfAnyWeightIsServed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		processes, callers, most int
		last                     time.Duration
	}{{1, 32, 10, 4 * time.Second}, {4, 32, 10, 4 * time.Second}, {1, 100, 5, 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			c := newTakers(t, tt.processes, &takers{callers: tt.callers, hold: 20 * time.Millisecond, last: tt.last, take: somePermits(10, 1, tt.most)})
			c.everybody(t, time.Second, 60)
		})
	}
}

// Without an order, the one that wants almost all keys finds one of them taken at each of its
// tries.
func TestWhoWantsAlmostAllKeysIsServedBesideManyWhoWantTwo(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			c := newTakers(t, processes, &takers{callers: 15, hold: 10 * time.Millisecond, last: 4 * time.Second, under: processes > 1, take: someKeys(20, 2, 2)})
			c.beside(t, another(t, c.fakes), 20*time.Millisecond, someKeys(16, 16, 16))
		})
	}
}

func TestWhoWantsManyPermitsIsServedBesideManyWhoWantOne(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			c := newTakers(t, processes, &takers{callers: 24, hold: 20 * time.Millisecond, last: 4 * time.Second, under: processes > 1, take: somePermits(10, 1, 1)})
			l := c.lockers[0]
			if processes > 1 {
				l = another(t, c.fakes)
			}
			c.beside(t, l, 100*time.Millisecond, somePermits(10, 10, 10))
		})
	}
}
