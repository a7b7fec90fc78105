package redlock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A crowdOfSets is callers that take sets of random keys over and over, and how they fared.
type crowdOfSets struct {
	lockers     []*Locker
	fakes       []*fakeNode
	callers     int
	keys        int
	least, most int           // keys of a set
	hold        time.Duration // up to so long
	last        time.Duration
	under       bool // each works under a lock of its own
}

// run lets the crowd go, and returns how long each acquire waited, in order.
func (c *crowdOfSets) run(t *testing.T) (waits []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	inside := map[string]bool{}
	var all sync.WaitGroup
	end := time.Now().Add(c.last)
	for i := range c.callers {
		all.Go(func() {
			ctx := t.Context()
			if c.under {
				own := mustAcquireUnder(t.Context(), t, c.lockers[i%len(c.lockers)], fmt.Sprint("own", i))
				defer mustRelease(t, own)
				ctx = own.Context()
			}
			for time.Now().Before(end) {
				var keys []string
				for _, k := range rand.Perm(c.keys)[:c.least+rand.N(c.most-c.least+1)] { //nolint:gosec // no secret
					keys = append(keys, fmt.Sprintf("key%02d", k))
				}
				began := time.Now()
				lock, err := c.lockers[i%len(c.lockers)].AcquireAll(ctx, keys)
				if err != nil {
					t.Errorf("AcquireAll = %v", err)
					return
				}
				mu.Lock()
				waits = append(waits, time.Since(began))
				for _, key := range keys {
					if inside[key] {
						t.Errorf("%q has two holders", key)
					}
					inside[key] = true
				}
				mu.Unlock()
				time.Sleep(rand.N(c.hold)) //nolint:gosec // as above
				mu.Lock()
				for _, key := range keys {
					inside[key] = false
				}
				mu.Unlock()
				if err := lock.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			}
		})
	}
	all.Wait()
	slices.Sort(waits)
	return waits
}

func TestEverybodyWhoTakesSeveralKeysIsServed(t *testing.T) {
	for _, processes := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			c := crowdOfSets{callers: 64, keys: 32, least: 2, most: 8, hold: 10 * time.Millisecond, last: 5 * time.Second}
			locker, fakes := newLocker(t, 5)
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.delay, f.jitter = time.Millisecond, 200*time.Microsecond })
			}
			c.lockers, c.fakes = []*Locker{locker}, fakes
			for range processes - 1 {
				c.lockers = append(c.lockers, another(t, fakes))
			}
			waits := c.run(t)
			n := len(waits)
			if bound := 64 * (c.hold + 20*time.Millisecond); waits[n-1] > bound || n < 500 {
				t.Errorf("with %d processes, one of %d acquires has waited for %v, want %v at the most, and 100 a second", processes, n, waits[n-1], bound)
			}
			t.Logf("%d processes: %d acquires, median %v, 99%% %v, most %v; %.1f tries each",
				processes, n, waits[n/2], waits[n*99/100], waits[n-1], float64(fakes[0].count("EVALSHA")+fakes[0].count("EVAL"))/float64(n))
		})
	}
}

// Without an order, the one that wants almost all keys finds one of them taken at each of its tries.
func TestWhoWantsAlmostAllKeysIsServedBesideManyWhoWantTwo(t *testing.T) {
	for _, processes := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.delay, f.jitter = time.Millisecond, 200*time.Microsecond })
			}
			c := crowdOfSets{callers: 15, keys: 20, least: 2, most: 2, hold: 10 * time.Millisecond, last: 4 * time.Second, under: processes > 1}
			for range processes {
				c.lockers = append(c.lockers, another(t, fakes))
			}
			var keys []string
			for k := range 16 {
				keys = append(keys, fmt.Sprintf("key%02d", k))
			}
			var served int
			var longest time.Duration
			var large sync.WaitGroup
			large.Go(func() {
				for end := time.Now().Add(c.last); time.Now().Before(end); {
					began := time.Now()
					lock, err := locker.AcquireAll(t.Context(), keys)
					if err != nil {
						t.Errorf("AcquireAll = %v", err)
						return
					}
					served++
					longest = max(longest, time.Since(began))
					if err := lock.Release(t.Context()); err != nil {
						t.Errorf("Release = %v", err)
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
			waits := c.run(t)
			large.Wait()
			if served < 10 || longest > time.Second {
				t.Errorf("beside %d processes with 15 callers, who wants 16 of 20 keys was served %d times in %v, after %v at the latest", processes, served, c.last, longest)
			}
			t.Logf("%d processes: %d acquires of 2 keys, at most after %v; %d of 16, at most after %v", processes, len(waits), waits[len(waits)-1], served, longest)
		})
	}
}
