package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/scripts"
	"github.com/quorumlock/quorumlock/internal/waiting"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// newSemaphore returns a semaphore of the key "s".
func newSemaphore(t *testing.T, l *Locker, permits int) *Semaphore {
	t.Helper()
	s, err := l.Semaphore("s", permits)
	must(t, err, "Semaphore(", permits, ")")
	return s
}

// mustTake takes a permit that is free.
func mustTake(t *testing.T, s *Semaphore, options ...AcquireOption) *Lock {
	t.Helper()
	p, err := s.TryAcquire(t.Context(), options...)
	must(t, err, "TryAcquire with a permit free")
	return p
}

func TestASemaphoreHasAsManyHoldersAsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		other := newSemaphore(t, another(t, fakes), 3)
		s := newSemaphore(t, locker, 3)
		slots := map[int]bool{}
		permits := []*Lock{mustTake(t, s), mustTake(t, other), mustTake(t, s)}
		for _, p := range permits {
			slots[p.Slots()[0]] = true
			if key := fmt.Sprintf("ql:slot:{s}%d", p.Slots()[0]); !p.Valid() || len(stray(fakes, key)) < 3 {
				t.Errorf("the permit of slot %d is at %v, want a quorum to have it at %s", p.Slots()[0], stray(fakes, key), key)
			}
		}
		if len(slots) != 3 {
			t.Errorf("three permits have the slots %v, want each its own", slots)
		}
		for _, s := range []*Semaphore{s, other} {
			if p, err := s.TryAcquire(t.Context()); !errors.Is(err, ErrTaken) {
				t.Errorf("a fourth TryAcquire of three = %v, %v; want ErrTaken", p, err)
			}
		}
		mustRelease(t, permits[1])
		if p := mustTake(t, s); p.Slots()[0] != permits[1].Slots()[0] {
			t.Errorf("the permit that was released is slot %d, and the next one has %d", permits[1].Slots()[0], p.Slots()[0])
		}
	})
}

// Of five nodes, two slots have ten places, which is room for three quorums: two nodes that lost
// what they had must not make one more.
func TestVotesForDifferentSlotsAreNotCountedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		mustTake(t, s)
		mustTake(t, s)
		synctest.Wait()
		// One place is free for each slot, at different nodes.
		fakes[0].Change(func(f *fakeNode) { delete(f.Keys, "ql:slot:{s}0") })
		fakes[1].Change(func(f *fakeNode) { delete(f.Keys, "ql:slot:{s}1") })
		for range 10 {
			if p, err := newSemaphore(t, another(t, fakes), 2).TryAcquire(t.Context()); !errors.Is(err, ErrTaken) {
				t.Fatalf("with no quorum for any slot TryAcquire = %v, %v; want ErrTaken", p, err)
			}
		}
	})
}

func TestAnUncontendedPermitIsOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		const permits = 16 // so many that no chance hides a try for one that is held
		s := newSemaphore(t, locker, permits)
		mustTake(t, s) // and the script is loaded
		for range permits - 1 {
			synctest.Wait()
			before := fakes[0].Count("EVALSHA")
			mustTake(t, s)
			synctest.Wait()
			if sent := fakes[0].Count("EVALSHA") - before; sent != 1 {
				t.Errorf("with a permit free an acquire took %d tries at a node, want 1", sent)
			}
		}
	})
}

func TestATryAsksForTheSlotThatTheNodesSayIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 50)
		for i := range 50 {
			if i != 17 {
				plant(fakes, fmt.Sprintf("ql:slot:{s}%d", i), "another", time.Hour)
			}
		}
		p := mustTake(t, s)
		if sent := fakes[0].Count("EVAL") + fakes[0].Count("EVALSHA"); p.Slots()[0] != 17 || sent > 3 { // the first brings the script along
			t.Errorf("with slot 17 alone free the permit has slot %d, after %d commands at a node; want 17 after at most 3", p.Slots()[0], sent)
		}
	})
}

func TestAReleasedPermitIsHandedDownTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		held := []*Lock{mustTake(t, s), mustTake(t, s)}
		var line []<-chan *Lock
		for range 6 {
			line = append(line, waitForPermit(t, s))
		}
		for i, result := range line {
			before := fakes[0].Count("EVALSHA")
			old := held[i]
			mustRelease(t, old)
			next := <-result
			synctest.Wait()
			if next.Slots()[0] != old.Slots()[0] || next.Token() == old.Token() {
				t.Fatalf("waiter %d has %v; want slot %d, with another token", i, next, old.Slots()[0])
			}
			if sent := fakes[0].Count("EVALSHA") - before; i > 0 && sent != 2 {
				t.Errorf("hand-over %d took %d commands at a node, want one for the slot and one for the count", i, sent)
			}
			held = append(held, next)
		}
	})
}

func TestAWaiterTakesThePermitThatExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for i := range 3 {
			plant(fakes, fmt.Sprintf("ql:slot:{s}%d", i), "of a dead process", time.Duration(3-i)*time.Minute)
		}
		began := time.Now()
		p, err := newSemaphore(t, locker, 3).Acquire(t.Context())
		if err != nil || p.Slots()[0] != 2 || time.Since(began) > time.Minute+10*time.Second {
			t.Errorf("Acquire = %v, %v after %v; want slot 2 after 1m", p, err, time.Since(began))
		}
	})
}

func TestAnotherNumberOfPermitsIsRefusedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		p := mustTake(t, newSemaphore(t, locker, 3))
		other := newSemaphore(t, another(t, fakes), 4)
		for name, acquire := range map[string]func(context.Context, ...AcquireOption) (*Lock, error){
			"Acquire": other.Acquire, "TryAcquire": other.TryAcquire,
			"AcquireN": func(ctx context.Context, options ...AcquireOption) (*Lock, error) {
				return other.AcquireN(ctx, 2, options...)
			},
		} {
			began := time.Now()
			_, err := acquire(t.Context())
			if !errors.Is(err, ErrPermits) || errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "counts 4, and others 3") {
				t.Errorf("%s of 4 permits where others count 3 = %v; want ErrPermits with both numbers", name, err)
			}
			wantWithin(t, time.Second, began, name, "took")
		}
		// Those who are refused do not keep the number, and it is gone for two TTLs behind the
		// last.
		mustRelease(t, p)
		for range 19 {
			time.Sleep(time.Second)
			if _, err := other.TryAcquire(t.Context()); !errors.Is(err, ErrPermits) {
				t.Fatalf("less than two TTLs later TryAcquire = %v, want ErrPermits", err)
			}
		}
		time.Sleep(time.Second)
		mustTake(t, other)
	})
}

func TestANumberOfPermitsLivesAsLongAsAnyPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		p := mustTake(t, newSemaphore(t, locker, 3), WithRenewal())
		q := mustTake(t, newSemaphore(t, locker, 3))
		must(t, q.Extend(t.Context(), 10*time.Minute))
		synctest.Wait()
		if _, left := fakes[0].Token("ql:permits:{s}"); left < 20*time.Minute {
			t.Errorf("after an extension to 10m the number is kept for %v, want 20m", left)
		}
		mustRelease(t, q)
		other := newSemaphore(t, another(t, fakes), 4)
		time.Sleep(30 * time.Minute)
		if _, err := other.TryAcquire(t.Context()); !errors.Is(err, ErrPermits) || !p.Valid() {
			t.Errorf("after 30m of renewals TryAcquire of another number = %v, want ErrPermits", err)
		}
	})
}

func TestAnExtensionFindsOutThatOthersCountAnotherNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		p := mustTake(t, newSemaphore(t, locker, 3))
		for _, f := range fakes[:2] {
			f.Change(func(f *fakeNode) { delete(f.Keys, "ql:permits:{s}") }) // evicted
			f.Plant("ql:permits:{s}", "7", time.Hour)
		}
		says(t, ErrPermits, "counts 3, and others another number")(p.Extend(t.Context(), time.Minute))
		changeAll(fakes[:2], func(f *fakeNode) { delete(f.Keys, "ql:permits:{s}") })
		noError(t, p.Extend(t.Context(), time.Minute), "Extend where nobody counts")
		synctest.Wait()
		for i, f := range fakes[:2] {
			if count, _ := f.Token("ql:permits:{s}"); count != "3" {
				t.Errorf("an extension left node %d counting %q, want 3", i, count)
			}
		}
	})
}

func TestASlotThatHoldsSomethingElseIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		plant(fakes, "ql:slot:{s}1", fakenode.List, time.Hour)
		s := newSemaphore(t, locker, 3)
		if a, b := mustTake(t, s), mustTake(t, s); a.Slots()[0] == 1 || b.Slots()[0] == 1 {
			t.Errorf("the slots are %d and %d, want none to be 1, which is a list", a.Slots()[0], b.Slots()[0])
		}
		returns(t, ErrTaken, "TryAcquire with a list at the last slot")(s.TryAcquire(t.Context()))
		for _, f := range fakes {
			if token, _ := f.Token("ql:slot:{s}1"); token != fakenode.List {
				t.Errorf("%s has %q there, want the list", f.Name(), token)
			}
		}
	})
}

func TestASemaphoreRefusesWhatCannotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		refused := func(what string, err error) {
			t.Helper()
			var option *OptionError
			if !errors.Is(err, ErrOption) || !errors.As(err, &option) || option.Option != what {
				t.Errorf("%v, want an OptionError for %s", err, what)
			}
		}
		for _, permits := range []int{-1, 0, maxPermits + 1, 1 << 40} {
			_, err := locker.Semaphore("s", permits)
			refused("permits", err)
		}
		returns(t, ErrOption, "Semaphore without a key")(locker.Semaphore("", 1))
		s := newSemaphore(t, locker, 3)
		for _, n := range []int{-1, 0, 4, 1 << 40} {
			_, err := s.AcquireN(t.Context(), n)
			_, again := s.TryAcquireN(t.Context(), n)
			for _, err := range []error{err, again} {
				refused("n", err)
				says(t, ErrOption, fmt.Sprint(n))(err)
			}
		}
		for name, options := range map[string][]AcquireOption{
			"WithToken": {WithToken("mine")}, "a nil option": {nil}, "a TTL of 0": {WithTTL(0)},
		} {
			returns(t, ErrOption, "Acquire with", name)(s.Acquire(t.Context(), options...))
			returns(t, ErrOption, "AcquireN with", name)(s.AcquireN(t.Context(), 2, options...))
		}
		if fakes[0].Batches() > 0 {
			t.Error("something was sent")
		}
	})
}

func TestAContextThatCarriesAllPermitsIsADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		s := newSemaphore(t, locker, 5)
		lock := mustAcquire(t, locker, "s") // another key, in spite of its name
		first, err := s.Acquire(lock.Context())
		must(t, err, "Acquire under a lock of the same name")
		mustRelease(t, first)
		mustRelease(t, lock)
		first = mustTakeN(t, s, 3)
		returns(t, nil, "TryAcquire of a lock under a permit of the same name")(locker.TryAcquire(first.Context(), "s"))
		returns(t, ErrDeadlock, "three more of five under three")(s.AcquireN(first.Context(), 3))
		second, err := s.AcquireN(first.Context(), 2)
		must(t, err, "two more of five under three")
		returns(t, ErrDeadlock, "one more of five under five")(newSemaphore(t, locker, 5).Acquire(second.Context()))
		mustRelease(t, first)
		returns(t, nil, "Acquire under two of five, the others free")(s.Acquire(second.Context()))
	})
}

func TestASemaphoreThatNobodyUsesIsForgotten(t *testing.T) {
	locker, _ := newLocker(t, 3)
	s := newSemaphore(t, locker, 2)
	if again := newSemaphore(t, locker, 2); again.pool != s.pool {
		t.Error("two semaphores of one name do not share their line")
	}
	if other := newSemaphore(t, locker, 3); other.pool == s.pool {
		t.Error("semaphores with different numbers of permits share their slots")
	}
	for i := range 1000 {
		if _, err := locker.Semaphore(fmt.Sprintf("user %d", i), 2); err != nil {
			t.Fatal(err)
		}
	}
	p := mustTake(t, s)
	names := func() int {
		locker.pools.mu.Lock()
		defer locker.pools.mu.Unlock()
		return len(locker.pools.byName)
	}
	for range 1000 { // cleanups run in a goroutine of the runtime
		runtime.GC()
		if names() == 1 {
			break
		}
		runtime.Gosched()
	}
	if n := names(); n != 1 {
		t.Errorf("%d semaphores are kept, want the one that is in use", n)
	}
	runtime.KeepAlive(p)
}

// waitForPermit lets somebody wait for a permit, and returns when he is in line.
func waitForPermit(t *testing.T, s *Semaphore, options ...AcquireOption) <-chan *Lock {
	t.Helper()
	result := make(chan *Lock, 1)
	go func() {
		p, err := s.Acquire(t.Context(), options...)
		noError(t, err)
		result <- p
	}()
	synctest.Wait()
	return result
}

func TestTheNextInLineIsWokenByAReleaseElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		mine := mustTake(t, s, WithTTL(time.Hour))
		theirs := mustTake(t, newSemaphore(t, another(t, fakes), 2), WithTTL(time.Hour))
		first, second := waitForPermit(t, s, WithTTL(time.Hour)), waitForPermit(t, s)
		mustRelease(t, mine)
		if p := <-first; p.Slots()[0] != mine.Slots()[0] {
			t.Errorf("the first has slot %d, want %d, which was handed over", p.Slots()[0], mine.Slots()[0])
		}
		began := time.Now()
		mustRelease(t, theirs)
		if p := <-second; p.Slots()[0] != theirs.Slots()[0] || time.Since(began) > 10*time.Millisecond {
			t.Errorf("the second has slot %d after %v, want %d at once", p.Slots()[0], time.Since(began), theirs.Slots()[0])
		}
	})
}

func TestAPermitGoesToTheSecondWhileTheFirstAsksTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		held := []*Lock{mustTake(t, s), mustTake(t, s)}
		noError(t, held[0].Extend(t.Context(), time.Minute), "Extend") // from here on the nodes know the script
		far(fakes, 10*time.Millisecond)
		first := waitForPermit(t, s)
		time.Sleep(time.Second)
		next, _ := s.pool.lines.Next("s", waiting.Row{})
		next.Give(nil) // what was promised comes to nothing, so it tries at once
		time.Sleep(5 * time.Millisecond)
		second := waitForPermit(t, s)
		began := time.Now()
		mustRelease(t, held[0])
		if p := <-second; p.Slots()[0] != held[0].Slots()[0] || time.Since(began) > 16*time.Millisecond { // behind a try for that slot
			t.Errorf("the second has slot %d after %v, want %d after a round trip", p.Slots()[0], time.Since(began), held[0].Slots()[0])
		}
		mustRelease(t, held[1])
		<-first
	})
}

func TestAProcessGoesBackToTheSlotThatItReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes, turns = 8, 20
		_, fakes := newLocker(t, 3)
		tries := 0
		before(fakes[:1], "", func(_ *fakeNode, args []any) {
			if len(args) > 1 && (args[1] == scripts.Slot.Digest || args[1] == scripts.Slot.Source) {
				tries++
			}
		})
		var all []*Semaphore
		for range processes {
			all = append(all, newSemaphore(t, another(t, fakes), processes))
		}
		last := make([]int, processes)
		for turn := range turns {
			var held []*Lock
			for i, s := range all {
				p := mustTake(t, s)
				if turn > 0 && p.Slots()[0] != last[i] {
					t.Errorf("process %d has slot %d, want %d, which it had before", i, p.Slots()[0], last[i])
				}
				last[i] = p.Slots()[0]
				held = append(held, p)
			}
			synctest.Wait() // so that all of them have left
			if turn == 0 {
				tries = 0
			}
			for _, p := range held {
				mustRelease(t, p)
			}
			synctest.Wait()
		}
		if want := processes * (turns - 1); tries != want {
			t.Errorf("%d acquires took %d tries at a node, want one each", want, tries)
		}
	})
}

func TestAPermitThatIsNotOnTheDisksIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(3)
		locker := another(t, fakes, WithDurability(Durability{Disk: true}))
		s := newSemaphore(t, locker, 2)
		p := mustTake(t, s)
		noError(t, p.Extend(t.Context(), 20*time.Second), "Extend with all disks well")
		setAll(fakes[:2], func(f *proofNode) { f.Local = 0 })
		returns(t, ErrNoQuorum, "TryAcquire with two of three disks out of order")(s.TryAcquire(t.Context()))
		returns(t, ErrNoQuorum, "Extend with two of three disks out of order")(p.Extend(t.Context(), 30*time.Second))
		noError(t, p.Release())
		time.Sleep(3 * time.Second)
		for i := range 2 {
			wantFree(t, plainNodes(fakes), fmt.Sprintf("ql:slot:{s}%d", i), i)
		}
	})
}

func TestALineForPermitsListensWhileItWaitsAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		s := newSemaphore(t, locker, 5)
		var held []*Lock
		for range 5 {
			held = append(held, mustTake(t, s))
		}
		waiting := waitForPermit(t, s)
		time.Sleep(time.Second)
		if channels, _ := locker.board.Nodes[0].Subscriber.Left(); channels != 6 { // and the line
			t.Errorf("who waits for any of 5 slots listens to %d channels of a node", channels)
		}
		mustRelease(t, held[2])
		<-waiting
		time.Sleep(time.Second)
		if channels, _ := locker.board.Nodes[0].Subscriber.Left(); channels != 0 {
			t.Errorf("when nobody waits, %d channels are listened to", channels)
		}
	})
}

func TestProcessesTakeTurnsForPermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const permits, processes, callers, long = 10, 20, 5, 6 * time.Second // in a shorter time chance decides
		_, fakes := newLocker(t, 3)
		changeAll(fakes, func(f *fakeNode) { f.Delay, f.Jitter = time.Millisecond, 500*time.Microsecond })
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		var served [processes]atomic.Int32
		var all sync.WaitGroup
		for i := range processes {
			s := newSemaphore(t, another(t, fakes), permits)
			for range callers {
				all.Go(func() {
					for {
						p, err := s.Acquire(ctx)
						if err != nil {
							return
						}
						served[i].Add(1)
						time.Sleep(20 * time.Millisecond)
						_ = p.Release()
					}
				})
			}
		}
		all.Wait()
		least, most, sum := int32(math.MaxInt32), int32(0), int32(0)
		for i := range served {
			n := served[i].Load()
			least, most, sum = min(least, n), max(most, n), sum+n
		}
		t.Logf("%d permits were had, by processes between %d and %d", sum, least, most)
		if ideal := int(permits * long / (20 * time.Millisecond)); int(sum) < ideal*4/5 {
			t.Errorf("%d permits were had, want at least 80 %% of %d", sum, ideal)
		}
		if least < most/4 {
			t.Errorf("one process had %d permits and another %d: want none to have less than a quarter of another", least, most)
		}
	})
}

// How long a crowd waits is a matter of round trips, as long as these are shorter than the node time-out. Each turn
// takes three: the acquire, an extension, the release.
func TestACrowdTakesItsTurnsInSoManyTripsHoweverFarTheNodesAre(t *testing.T) {
	t.Parallel()
	const processes, callers, turns = 3, 5, 4
	for _, tt := range []struct{ permits, most int }{{1, 230}, {3, 100}} {
		for _, trip := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second} {
			bubble(t, fmt.Sprint(tt.permits, trip), func(t *testing.T) {
				_, fakes := newLocker(t, 5)
				far(fakes, trip)
				began := time.Now()
				var all sync.WaitGroup
				for range processes {
					locker := another(t, fakes, WithTTL(time.Hour), WithNodeTimeout(20*time.Second))
					take := func() (*Lock, error) { return locker.Acquire(t.Context(), "k") }
					if s := newSemaphore(t, locker, tt.permits); tt.permits > 1 {
						take = func() (*Lock, error) { return s.Acquire(t.Context()) }
					}
					for range callers {
						all.Go(func() {
							for range turns {
								p, err := take()
								if err == nil {
									err = errors.Join(p.Extend(t.Context(), 2*time.Hour), p.Release())
								}
								noError(t, err)
							}
						})
					}
				}
				all.Wait()
				if took := int(time.Since(began) / trip); took > tt.most {
					t.Errorf("%d turns of %d permits took %d round trips, want at most %d", processes*callers*turns, tt.permits, took, tt.most)
				}
			})
		}
	}
}

func TestAnAnnouncementTellsWhichSlotIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		s := newSemaphore(t, locker, 5).pool
		for i := range s.all {
			s.all[i].seen = unlikely
		}
		s.lines.Host.Heard(3)
		if tried := s.begin(0, make([]bool, len(s.all)), true); tried[0].number != 3 {
			t.Errorf("the next try is for slot %d, want the one that was announced", tried[0].number)
		}
	})
}

func TestCallersAtOnceAskForASlotEach(t *testing.T) {
	locker, _ := newLocker(t, 3)
	pool := newSemaphore(t, locker, 8).pool
	seen := map[int]bool{}
	for range 8 {
		seen[pool.begin(0, make([]bool, 8), true)[0].number] = true
	}
	if len(seen) != 8 {
		t.Errorf("eight tries at once ask for the slots %v of eight", seen)
	}
}
