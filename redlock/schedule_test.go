package redlock

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// extensions notes when a node is asked for how many extensions, without answering itself.
func extensions(f *fakeNode) (noted func() []time.Time) {
	var times []time.Time
	f.change(func(f *fakeNode) {
		f.answer = func(args []any) *driver.Reply {
			switch {
			case args[0] != "EVALSHA" && args[0] != "EVAL", args[2] == "0", args[2] == "-1":
			case args[1] == scripts.Extend.Digest || args[1] == scripts.Extend.Source:
				times = append(times, slices.Repeat([]time.Time{time.Now()}, atoi(args[2]))...)
			case args[1] == scripts.Hold.Digest || args[1] == scripts.Hold.Source:
				times = append(times, time.Now())
			}
			return nil
		}
	})
	return func() []time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		return times
	}
}

func TestLocksThatAreTakenTogetherAreNotRenewedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count, ttl = 1000, 30 * time.Second
		locker, fakes := newLocker(t, 1, WithTTL(ttl), WithRenewal())
		warm(t, locker)
		noted := extensions(fakes[0])
		began := time.Now()
		locks := acquireAll(t, locker, count)
		time.Sleep(2*ttl - time.Millisecond)
		times := noted()
		if earliest, latest := times[0].Sub(began), times[count-1].Sub(began); earliest < ttl/6 || latest > ttl/3 {
			t.Errorf("the first renewals came %v to %v after the acquire of a lease of %v, want a sixth to a third of it", earliest, latest, ttl)
		}
		const parts = 60
		var load [2 * parts]int
		for _, at := range times {
			load[int(at.Sub(began)*parts/ttl)]++
		}
		for i, n := range load {
			if n > count/5 {
				t.Errorf("in second %d of %d, half a second has %d of %d renewals", i/2, 60, n, count)
			}
		}
		if most := 2 * count * earliestAgain; len(times) > most {
			t.Errorf("%d renewals of %d locks in two TTLs, want at most %d", len(times), count, most)
		}
		moments := len(slices.Compact(times))
		if moments > 2*renewalSlots {
			t.Errorf("renewals came at %d moments, want them to gather at %d of a TTL", moments, renewalSlots)
		}
		for _, lock := range locks {
			if !lock.Valid() {
				t.Fatalf("%v was lost", lock)
			}
		}
	})
}

func TestALockerThatRenewsNothingHasNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3, WithRenewal())
		locks := acquireAll(t, locker, 20)
		time.Sleep(time.Minute)
		releaseAll(t, locks)
		s := &locker.renewals
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.renewals) > 0 || s.fires != 0 || s.timer.Stop() {
			t.Errorf("after the release of all locks %d renewals are planned, and a timer runs", len(s.renewals))
		}
	})
}

// slow makes a node's batches with a command take so long.
func slow(f *fakeNode, command string, d time.Duration) {
	f.change(func(f *fakeNode) {
		before := f.hold
		f.hold = func(name string) <-chan struct{} {
			if name != command && before != nil {
				return before(name)
			}
			if name != command {
				return nil
			}
			passed := make(chan struct{})
			time.AfterFunc(d, func() { close(passed) })
			return passed
		}
	})
}

// A waitingRoom is what is told of three nodes whose batches are slow, and of the renewals of a
// lock there.
type waitingRoom struct {
	locker *Locker
	fakes  []*fakeNode
	lock   *Lock // renewed
	other  *Lock // asking for it takes 100ms, for which nothing else leaves

	mu   sync.Mutex
	down []Event
	told []Renewal
}

func newWaitingRoom(t *testing.T, options ...Option) *waitingRoom {
	t.Helper()
	w := &waitingRoom{}
	w.locker, w.fakes = newLocker(t, 3, append(options, OnEvent(func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.Kind == NodeDown {
			w.down = append(w.down, e)
		}
	}), OnRenewal(func(r Renewal) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, r)
	}))...)
	warm(t, w.locker)
	w.lock, w.other = mustAcquire(t, w.locker, "k", WithRenewal()), mustAcquire(t, w.locker, "other")
	synctest.Wait()
	for _, f := range w.fakes {
		slow(f, "GET", 100*time.Millisecond)
	}
	return w
}

// fill sends a batch behind which all has to wait.
func (w *waitingRoom) fill(t *testing.T) {
	go func() { _, _ = w.other.Held(t.Context()) }()
	synctest.Wait()
}

func (w *waitingRoom) renew() { w.locker.renewals.set(w.lock.renewal, w.locker.clock.Now()) }

// check fails the test if a node was taken out, or so many renewals were not carried.
func (w *waitingRoom) check(t *testing.T, renewals int) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		t.Errorf("nodes were taken out: %v", w.down)
	}
	for _, r := range w.told {
		if r.Err != nil || r.Granted != 3 {
			t.Errorf("a renewal is reported as %v", r)
		}
	}
	if len(w.told) != renewals {
		t.Errorf("%d renewals were reported, want %d", len(w.told), renewals)
	}
}

func TestTheTimeThatARenewalWaitsToLeaveIsNotTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitingRoom(t)
		for _, f := range w.fakes {
			slow(f, "EVALSHA", 200*time.Millisecond)
		}
		w.fill(t)
		w.renew() // it waits 100ms to leave and 200ms for its answer, of 250ms that a node may take
		time.Sleep(310 * time.Millisecond)
		w.check(t, 1)
	})
}

func TestTheTimeThatATryWaitsToLeaveTakesNoNodeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitingRoom(t)
		for _, f := range w.fakes {
			slow(f, "SET", 200*time.Millisecond)
		}
		w.fill(t)
		if _, err := w.locker.TryAcquire(t.Context(), "slow"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("TryAcquire = %v, want ErrNoQuorum after a node time-out", err)
		}
		time.Sleep(100 * time.Millisecond)
		w.check(t, 0)
	})
}

func TestARenewalStaysInTheQueueAsLongAsItsLeaseRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitingRoom(t)
		for _, f := range w.fakes {
			slow(f, "SET", 290*time.Millisecond)
		}
		w.fill(t)
		go func() { _, _ = w.locker.TryAcquire(t.Context(), "slow") }() // out from 100ms to 390ms
		time.Sleep(101 * time.Millisecond)
		w.renew()
		time.Sleep(300 * time.Millisecond)
		w.check(t, 1)
	})
}

func TestTheTimeInWhichTheMachineSleptIsNotTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		clock := clockdrift.NewWith(func() time.Duration { return time.Duration(slept.Load()) })
		w := newWaitingRoom(t, WithTTL(30*time.Second), option(func(o *lockerOptions) { o.clock = clock }))
		for _, f := range w.fakes {
			slow(f, "EVALSHA", 260*time.Millisecond)
		}
		w.renew()
		time.Sleep(100 * time.Millisecond)
		slept.Store(int64(2 * time.Second))
		clock.Fresh()
		time.Sleep(200 * time.Millisecond)
		w.check(t, 1)
	})
}

func TestARenewalThatStandsInAQueueIsNotBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		lock, other := mustAcquire(t, locker, "k", WithRenewal()), mustAcquire(t, locker, "other")
		synctest.Wait()
		noted := extensions(fakes[0])
		for _, f := range fakes {
			slow(f, "GET", 200*time.Millisecond)
		}
		go func() { _, _ = other.Held(t.Context()) }()
		synctest.Wait()
		for range 10 {
			locker.renewals.set(lock.renewal, locker.clock.Now())
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		if sent := len(noted()); sent != 1 {
			t.Errorf("a renewal that stood in the queue was sent %d times", sent)
		}
		time.Sleep(10 * time.Second)
		if !lock.Valid() {
			t.Error("and it was not begun again when it had left")
		}
	})
}

func TestFailedRenewalsDoNotFlood(t *testing.T) {
	for name, harm := range map[string]func(*fakeNode){
		"refuse": func(f *fakeNode) { f.change(refuse) },
		"hang":   func(f *fakeNode) { f.stop() },
	} {
		synctest.Test(t, func(t *testing.T) {
			const floor = 250 * time.Millisecond / 4
			var mu sync.Mutex
			var told []Renewal
			var times []time.Time
			locker, fakes := newLocker(t, 3, WithTTL(10*time.Second), OnRenewal(func(r Renewal) {
				mu.Lock()
				defer mu.Unlock()
				told, times = append(told, r), append(times, time.Now())
			}))
			lock := mustAcquire(t, locker, "k", WithRenewal())
			synctest.Wait()
			for _, f := range fakes {
				harm(f)
			}
			<-lock.Context().Done()
			mu.Lock()
			defer mu.Unlock()
			if len(told) < 5 || len(told) > 35 {
				t.Errorf("nodes %s: %d attempts for one lock of 10s, want some twenty", name, len(told))
			}
			for i, r := range told {
				if r.Err == nil || r.Attempt != i+1 {
					t.Errorf("nodes %s: report %d is %v of attempt %d", name, i+1, r.Err, r.Attempt)
				}
				if i > 0 && times[i].Sub(times[i-1]) < floor {
					t.Errorf("nodes %s: attempt %d failed %v after the one before, want no pause below %v", name, i+1, times[i].Sub(times[i-1]), floor)
				}
			}
		})
	}
}

func TestAttemptsAreCountedFromTheLastThatWasCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var attempts []int
		locker, fakes := newLocker(t, 3, OnRenewal(func(r Renewal) {
			mu.Lock()
			defer mu.Unlock()
			attempts = append(attempts, r.Attempt)
		}))
		mustAcquire(t, locker, "k", WithRenewal())
		time.Sleep(5 * time.Second)
		for _, f := range fakes {
			f.change(refuse)
		}
		time.Sleep(4 * time.Second) // longer than a third of the TTL: a renewal falls due
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.refused = nil })
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		last := attempts[len(attempts)-1]
		if attempts[0] != 1 || last != 1 || slices.Max(attempts) < 2 {
			t.Errorf("the attempts before, in and after an outage of 4s are %v", attempts)
		}
	})
}
