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

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// newSemaphore returns a semaphore of the key "s".
func newSemaphore(t *testing.T, l *Locker, permits int) *Semaphore {
	t.Helper()
	s, err := l.Semaphore("s", permits)
	if err != nil {
		t.Fatalf("Semaphore(%d) = %v", permits, err)
	}
	return s
}

// mustTake takes a permit that is free.
func mustTake(t *testing.T, s *Semaphore, options ...AcquireOption) *Permit {
	t.Helper()
	p, err := s.TryAcquire(t.Context(), options...)
	if err != nil {
		t.Fatalf("TryAcquire with a permit free = %v", err)
	}
	return p
}

func TestASemaphoreHasAsManyHoldersAsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		other := newSemaphore(t, another(t, fakes), 3)
		s := newSemaphore(t, locker, 3)
		slots := map[int]bool{}
		permits := []*Permit{mustTake(t, s), mustTake(t, other), mustTake(t, s)}
		for _, p := range permits {
			slots[p.Slot()] = true
			if key := fmt.Sprintf("ql:slot:{s}%d", p.Slot()); !p.Valid() || len(stray(fakes, key)) < 3 {
				t.Errorf("the permit of slot %d is at %v, want a quorum to have it at %s", p.Slot(), stray(fakes, key), key)
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
		if err := permits[1].Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		if p := mustTake(t, s); p.Slot() != permits[1].Slot() {
			t.Errorf("the permit that was released is slot %d, and the next one has %d", permits[1].Slot(), p.Slot())
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
		fakes[0].change(func(f *fakeNode) { delete(f.keys, "ql:slot:{s}0") })
		fakes[1].change(func(f *fakeNode) { delete(f.keys, "ql:slot:{s}1") })
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
		s := newSemaphore(t, locker, 4)
		mustTake(t, s) // and the script is loaded
		for range 3 {
			synctest.Wait()
			before := fakes[0].count("EVALSHA")
			mustTake(t, s)
			synctest.Wait()
			if sent := fakes[0].count("EVALSHA") - before; sent != 1 {
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
				for _, f := range fakes {
					f.plant(fmt.Sprintf("ql:slot:{s}%d", i), "another", time.Hour)
				}
			}
		}
		p := mustTake(t, s)
		if sent := fakes[0].count("EVAL") + fakes[0].count("EVALSHA"); p.Slot() != 17 || sent > 3 { // the first brings the script along
			t.Errorf("with slot 17 alone free the permit has slot %d, after %d commands at a node; want 17 after at most 3", p.Slot(), sent)
		}
	})
}

func TestAReleasedPermitIsHandedDownTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		held := []*Permit{mustTake(t, s), mustTake(t, s)}
		type got struct {
			p   *Permit
			err error
		}
		var line []chan got
		for range 6 {
			result := make(chan got, 1)
			line = append(line, result)
			go func() {
				p, err := s.Acquire(t.Context())
				result <- got{p, err}
			}()
			synctest.Wait()
		}
		for i, result := range line {
			before := fakes[0].count("EVALSHA")
			old := held[i]
			if err := old.Release(t.Context()); err != nil {
				t.Fatalf("Release %d = %v", i, err)
			}
			next := <-result
			synctest.Wait()
			if next.err != nil || next.p.Slot() != old.Slot() {
				t.Fatalf("waiter %d has %v, %v; want slot %d", i, next.p, next.err, old.Slot())
			}
			if sent := fakes[0].count("EVALSHA") - before; i > 0 && sent != 1 {
				t.Errorf("hand-over %d took %d commands at a node, want 1", i, sent)
			}
			if next.p.Token() == old.Token() {
				t.Error("a permit was handed over with its old token")
			}
			held = append(held, next.p)
		}
	})
}

func TestAPermitReleasedElsewhereWakesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		mine := mustTake(t, newSemaphore(t, locker, 2), WithTTL(time.Hour))
		theirs := mustTake(t, newSemaphore(t, another(t, fakes), 2), WithTTL(time.Hour))
		result := make(chan *Permit)
		began := time.Now()
		go func() {
			p, err := newSemaphore(t, locker, 2).Acquire(t.Context())
			if err != nil {
				t.Errorf("Acquire = %v", err)
			}
			result <- p
		}()
		time.Sleep(time.Second)
		if err := theirs.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		p := <-result
		if took := time.Since(began); took > time.Second+10*time.Millisecond || p.Slot() != theirs.Slot() {
			t.Errorf("the waiter has slot %d after %v, want slot %d, which was released after 1s", p.Slot(), took, theirs.Slot())
		}
		if !mine.Valid() {
			t.Error("the other permit is not valid any more")
		}
	})
}

func TestAWaiterTakesThePermitThatExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for i := range 3 {
			for _, f := range fakes {
				f.plant(fmt.Sprintf("ql:slot:{s}%d", i), "of a dead process", time.Hour-time.Duration(i)*20*time.Minute)
			}
		}
		began := time.Now()
		p, err := newSemaphore(t, locker, 3).Acquire(t.Context())
		if err != nil || p.Slot() != 2 || time.Since(began) > 20*time.Minute+10*time.Second {
			t.Errorf("Acquire = %v, %v after %v; want slot 2 after 20m", p, err, time.Since(began))
		}
	})
}

func TestAnotherNumberOfPermitsIsRefusedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		p := mustTake(t, newSemaphore(t, locker, 3))
		other := newSemaphore(t, another(t, fakes), 4)
		for name, acquire := range map[string]func(context.Context, ...AcquireOption) (*Permit, error){"Acquire": other.Acquire, "TryAcquire": other.TryAcquire} {
			began := time.Now()
			_, err := acquire(t.Context())
			if !errors.Is(err, ErrPermits) || errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "counts 4, and others 3") {
				t.Errorf("%s of 4 permits where others count 3 = %v; want ErrPermits with both numbers", name, err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s took %v to say so, want it at once", name, took)
			}
		}
		// Those who are refused do not keep the number, and it is gone for two TTLs behind the last.
		if err := p.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
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
		if err := q.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, left := fakes[0].token("ql:permits:{s}"); left < 2*time.Hour {
			t.Errorf("after an extension to an hour the number is kept for %v, want two hours", left)
		}
		if err := q.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := newSemaphore(t, another(t, fakes), 4)
		time.Sleep(10 * time.Hour)
		if _, err := other.TryAcquire(t.Context()); !errors.Is(err, ErrPermits) || !p.Valid() {
			t.Errorf("after 10 hours of renewals TryAcquire of another number = %v, want ErrPermits", err)
		}
	})
}

func TestAnExtensionFindsOutThatOthersCountAnotherNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		p := mustTake(t, newSemaphore(t, locker, 3))
		for _, f := range fakes[:2] {
			f.change(func(f *fakeNode) { delete(f.keys, "ql:permits:{s}") }) // evicted
			f.plant("ql:permits:{s}", "7", time.Hour)
		}
		if err := p.Extend(t.Context(), time.Minute); !errors.Is(err, ErrPermits) || !strings.Contains(err.Error(), "counts 3, and others 7") {
			t.Errorf("Extend where a quorum counts 7 = %v, want ErrPermits with both numbers", err)
		}
		for _, f := range fakes[:2] {
			f.change(func(f *fakeNode) { delete(f.keys, "ql:permits:{s}") })
		}
		if err := p.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("Extend where nobody counts = %v", err)
		}
		synctest.Wait()
		for i, f := range fakes[:2] {
			if count, _ := f.token("ql:permits:{s}"); count != "3" {
				t.Errorf("an extension left node %d counting %q, want 3", i, count)
			}
		}
	})
}

func TestASlotThatHoldsSomethingElseIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.plant("ql:slot:{s}1", aList, time.Hour)
		}
		s := newSemaphore(t, locker, 3)
		if a, b := mustTake(t, s), mustTake(t, s); a.Slot() == 1 || b.Slot() == 1 {
			t.Errorf("the slots are %d and %d, want none to be 1, which is a list", a.Slot(), b.Slot())
		}
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, ErrTaken) {
			t.Errorf("TryAcquire with a list at the last slot = %v, want ErrTaken", err)
		}
		for _, f := range fakes {
			if token, _ := f.token("ql:slot:{s}1"); token != aList {
				t.Errorf("%s has %q there, want the list", f.name, token)
			}
		}
	})
}

func TestAPermitIsALockInAllElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithFences())
		s := newSemaphore(t, locker, 1)
		first := mustTake(t, s)
		ctx, fence := first.Context(), first.Fence()
		if held, err := first.Held(t.Context()); !held || err != nil {
			t.Errorf("Held = %v, %v", held, err)
		}
		if err := first.Release(t.Context()); err != nil || !errors.Is(context.Cause(ctx), ErrReleased) {
			t.Errorf("Release = %v, and the context has %v", err, context.Cause(ctx))
		}
		second := mustTake(t, s)
		if fence == 0 || second.Fence() <= fence {
			t.Errorf("the fences of two holders of a slot are %d and %d, want them to rise", fence, second.Fence())
		}
		for _, f := range fakes[:3] {
			f.restart()
		}
		if err := second.Extend(t.Context(), 20*time.Second); err != nil {
			t.Errorf("Extend = %v", err)
		}
		if held, err := second.Held(t.Context()); !held || err != nil {
			t.Errorf("Held after nodes forgot and an extension = %v, %v", held, err)
		}
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if text, want := fmt.Sprintf(format, second), `slot 0 of "s", valid for `; !strings.HasPrefix(text, want) {
				t.Errorf("Sprintf(%q) = %s, want %s…", format, text, want)
			}
		}
		if len(second.Votes()) != 5 || second.Key() != "s" {
			t.Errorf("Votes and Key are %v, %q", second.Votes(), second.Key())
		}
		ctx = second.Context()
		time.Sleep(20 * time.Second)
		if !errors.Is(context.Cause(ctx), ErrLost) || !errors.Is(second.Release(t.Context()), ErrLost) {
			t.Errorf("after its lease the context has %v, want ErrLost", context.Cause(ctx))
		}
		mustTake(t, s)
	})
}

func TestAFailedTryLeavesNoSlotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		for _, f := range fakes[:3] {
			f.refused = errors.New("no route to host")
		}
		if _, err := newSemaphore(t, locker, 4).TryAcquire(t.Context()); !errors.Is(err, ErrNoQuorum) {
			t.Fatalf("TryAcquire with three of five nodes down = %v, want ErrNoQuorum", err)
		}
		synctest.Wait()
		for i := range 4 {
			if left := stray(fakes, fmt.Sprintf("ql:slot:{s}%d", i)); len(left) > 0 {
				t.Errorf("slot %d is still taken at %v", i, left)
			}
		}
	})
}

func TestHoldersOfEachSlotDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const permits, processes, callers, turns = 3, 4, 5, 20
		_, fakes := newLocker(t, 5)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay, f.jitter = time.Millisecond, time.Millisecond })
		}
		var mu sync.Mutex
		var working [permits]int
		served := make([]int, processes)
		var all sync.WaitGroup
		for i := range processes {
			s := newSemaphore(t, another(t, fakes), permits)
			for range callers {
				all.Go(func() {
					for range turns {
						p, err := s.Acquire(t.Context())
						if err != nil {
							t.Errorf("Acquire = %v", err)
							return
						}
						mu.Lock()
						working[p.Slot()]++
						if working[p.Slot()] != 1 {
							t.Errorf("slot %d has %d holders", p.Slot(), working[p.Slot()])
						}
						served[i]++
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						mu.Lock()
						working[p.Slot()]--
						mu.Unlock()
						if err := p.Release(t.Context()); err != nil {
							t.Errorf("Release = %v", err)
						}
					}
				})
			}
		}
		began := time.Now()
		all.Wait()
		took := time.Since(began)
		ideal := processes * callers * turns * 10 * time.Millisecond / permits
		if took > ideal*3/2 {
			t.Errorf("%d turns took %v, want less than half more than %v", processes*callers*turns, took, ideal)
		}
		t.Logf("permits were in use for %.0f %% of the time; turns by process %v", 100*float64(ideal)/float64(took), served)
	})
}

func TestASemaphoreRefusesWhatCannotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, permits := range []int{-1, 0, MaxPermits + 1, 1 << 40} {
			var option *OptionError
			if _, err := locker.Semaphore("s", permits); !errors.As(err, &option) || option.Option != "permits" {
				t.Errorf("Semaphore with %d permits = %v, want an OptionError for permits", permits, err)
			}
		}
		if _, err := locker.Semaphore("", 1); !errors.Is(err, ErrOption) {
			t.Errorf("Semaphore without a key = %v, want ErrOption", err)
		}
		s := newSemaphore(t, locker, 1)
		for name, options := range map[string][]AcquireOption{
			"WithToken": {WithToken("mine")}, "a nil option": {nil}, "a TTL of 0": {WithTTL(0)},
		} {
			if _, err := s.Acquire(t.Context(), options...); !errors.Is(err, ErrOption) {
				t.Errorf("Acquire with %s = %v, want ErrOption", name, err)
			}
		}
		if fakes[0].batches() > 0 {
			t.Error("something was sent")
		}
	})
}

func TestAContextThatCarriesAllPermitsIsADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		lock := mustAcquire(t, locker, "s") // another key, in spite of its name
		first, err := s.Acquire(lock.Context())
		if err != nil {
			t.Fatalf("Acquire under a lock of the same name = %v", err)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		first = mustTake(t, s)
		if _, err := locker.TryAcquire(first.Context(), "s"); err != nil {
			t.Errorf("TryAcquire of a lock under a permit of the same name = %v", err)
		}
		second, err := s.Acquire(first.Context())
		if err != nil {
			t.Fatalf("a second Acquire of two = %v", err)
		}
		if _, err := newSemaphore(t, locker, 2).Acquire(second.Context()); !errors.Is(err, ErrDeadlock) {
			t.Errorf("a third Acquire of two, under both = %v, want ErrDeadlock", err)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Acquire(second.Context()); err == nil || errors.Is(err, ErrDeadlock) {
			t.Errorf("under a context that has ended, with one permit free, Acquire = %v", err)
		}
	})
}

func TestASemaphoreWithoutScriptsSaysWhatToAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.scriptless = true })
		}
		for range 2 {
			began := time.Now()
			_, err := newSemaphore(t, locker, 2).Acquire(t.Context())
			if !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "allow +eval +evalsha") || time.Since(began) > time.Second {
				t.Errorf("Acquire without scripts = %v after %v, want what to allow at once", err, time.Since(began))
			}
		}
	})
}

func TestASemaphoreThatNobodyUsesIsForgotten(t *testing.T) {
	locker, _ := newLocker(t, 3)
	s := newSemaphore(t, locker, 2)
	if again := newSemaphore(t, locker, 2); again.slots != s.slots {
		t.Error("two semaphores of one name do not share their line")
	}
	if other := newSemaphore(t, locker, 3); other.slots == s.slots {
		t.Error("semaphores with different numbers of permits share their slots")
	}
	for i := range 1000 {
		if _, err := locker.Semaphore(fmt.Sprintf("user %d", i), 2); err != nil {
			t.Fatal(err)
		}
	}
	p := mustTake(t, s)
	names := func() int {
		locker.slots.mu.Lock()
		defer locker.slots.mu.Unlock()
		return len(locker.slots.byName)
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
func waitForPermit(t *testing.T, s *Semaphore, options ...AcquireOption) <-chan *Permit {
	t.Helper()
	result := make(chan *Permit, 1)
	go func() {
		p, err := s.Acquire(t.Context(), options...)
		if err != nil {
			t.Errorf("Acquire = %v", err)
		}
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
		if err := mine.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := <-first; p.Slot() != mine.Slot() {
			t.Errorf("the first has slot %d, want %d, which was handed over", p.Slot(), mine.Slot())
		}
		began := time.Now()
		if err := theirs.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := <-second; p.Slot() != theirs.Slot() || time.Since(began) > 10*time.Millisecond {
			t.Errorf("the second has slot %d after %v, want %d at once", p.Slot(), time.Since(began), theirs.Slot())
		}
	})
}

func TestAPermitGoesToTheSecondWhileTheFirstAsksTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		held := []*Permit{mustTake(t, s), mustTake(t, s)}
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 10 * time.Millisecond })
		}
		first := waitForPermit(t, s)
		time.Sleep(time.Second)
		s.slots.lines.Next("s").Give(nil) // what was promised comes to nothing, so it tries at once
		time.Sleep(5 * time.Millisecond)
		second := waitForPermit(t, s)
		began := time.Now()
		if err := held[0].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := <-second; p.Slot() != held[0].Slot() || time.Since(began) > 16*time.Millisecond { // behind a try for that slot
			t.Errorf("the second has slot %d after %v, want %d after a round trip", p.Slot(), time.Since(began), held[0].Slot())
		}
		if err := held[1].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-first
	})
}

func TestAProcessGoesBackToTheSlotThatItReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes, turns = 8, 20
		_, fakes := newLocker(t, 3)
		tries := 0
		fakes[0].change(func(f *fakeNode) {
			f.answer = func(args []any) *driver.Reply {
				if len(args) > 1 && (args[1] == scripts.Slot.Digest || args[1] == scripts.Slot.Source) {
					tries++
				}
				return nil
			}
		})
		var all []*Semaphore
		for range processes {
			all = append(all, newSemaphore(t, another(t, fakes), processes))
		}
		last := make([]int, processes)
		for turn := range turns {
			var held []*Permit
			for i, s := range all {
				p := mustTake(t, s)
				if turn > 0 && p.Slot() != last[i] {
					t.Errorf("process %d has slot %d, want %d, which it had before", i, p.Slot(), last[i])
				}
				last[i] = p.Slot()
				held = append(held, p)
			}
			synctest.Wait() // so that all of them have left
			if turn == 0 {
				tries = 0
			}
			for _, p := range held {
				if err := p.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		if want := processes * (turns - 1); tries != want {
			t.Errorf("%d acquires took %d tries at a node, want one each", want, tries)
		}
	})
}

func TestTheWaitForAPermitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		s := newSemaphore(t, locker, 2)
		held := []*Permit{mustTake(t, s, WithRenewal()), mustTake(t, s, WithRenewal())}
		leaving := errors.New("leaving")
		soon := func() context.Context {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(3*time.Second, func() { cancel(leaving) })
			return ctx
		}
		for name, tt := range map[string]struct {
			ctx     func() context.Context
			options []AcquireOption
			waits   time.Duration
			want    []error
		}{
			"WithMaxWait":         {t.Context, []AcquireOption{WithMaxWait(2 * time.Second)}, 2 * time.Second, []error{ErrTaken}},
			"no wait":             {t.Context, []AcquireOption{WithMaxWait(0)}, 0, []error{ErrTaken}},
			"no retry":            {t.Context, []AcquireOption{WithRetryLimit(0)}, 0, []error{ErrTaken}},
			"a context that ends": {soon, nil, 3 * time.Second, []error{ErrTaken, context.Canceled, leaving}},
		} {
			began := time.Now()
			p, err := s.Acquire(tt.ctx(), tt.options...)
			for _, want := range tt.want {
				if p != nil || !errors.Is(err, want) {
					t.Errorf("%s: Acquire = %v, %v; want %v", name, p, err, want)
				}
			}
			if took := time.Since(began); took < tt.waits || took > tt.waits+10*time.Millisecond {
				t.Errorf("%s: Acquire took %v, want %v", name, took, tt.waits)
			}
		}
		// Nobody is left in the line who would be given a permit.
		for _, p := range held {
			if err := p.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mustTake(t, s)
		mustTake(t, s)
	})
}

func TestTheGuardKeepsANodeThatForgotFromGivingAPermitTwice(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var options []Option
			if guarded {
				options = append(options, WithRestartGuard(10*time.Second))
			}
			one, fakes := newLocker(t, 3, options...)
			two := another(t, fakes, options...)
			if guarded {
				admit(t, one)
			}
			fakes[0].change(func(f *fakeNode) { f.refused = driver.NotSent(errCut) })
			first := mustTake(t, newSemaphore(t, one, 1)) // at nodes 2 and 3
			time.Sleep(time.Second)                       // node 1 is not asked again
			fakes[0].change(func(f *fakeNode) { f.refused = nil })
			fakes[1].restart()
			time.Sleep(2 * time.Second)
			second, err := newSemaphore(t, two, 1).TryAcquire(t.Context())
			switch both := err == nil && first.Valid() && second.Valid(); {
			case both && guarded:
				t.Error("with the guard one slot has two holders")
			case !both && !guarded:
				t.Errorf("without the guard TryAcquire = %v: this test does not show what the guard is for", err)
			case guarded && !errors.Is(err, ErrQuarantine) && !errors.Is(err, ErrTaken):
				t.Errorf("TryAcquire = %v, want ErrTaken, or ErrQuarantine in it", err)
			}
		})
	}
}

func TestAPermitThatIsNotOnTheDisksIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := proofNodes(3)
		locker := proofLocker(t, fakes, WithDurableVotes(0))
		s := newSemaphore(t, locker, 2)
		p := mustTake(t, s)
		if err := p.Extend(t.Context(), 20*time.Second); err != nil {
			t.Errorf("Extend with all disks well = %v", err)
		}
		for _, f := range fakes[:2] {
			f.set(func(f *proofNode) { f.local = 0 })
		}
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("TryAcquire with two of three disks out of order = %v, want ErrNoQuorum", err)
		}
		if err := p.Extend(t.Context(), 30*time.Second); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("Extend with two of three disks out of order = %v, want ErrNoQuorum", err)
		}
		if err := p.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(3 * time.Second)
		for i := range 2 {
			if left := stray(plainNodes(fakes), fmt.Sprintf("ql:slot:{s}%d", i)); left != nil {
				t.Errorf("slot %d is left at %v", i, left)
			}
		}
	})
}

func TestCloseEndsPermitsAndWhoeverWaitsForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		s := newSemaphore(t, locker, 1)
		p := mustTake(t, s, WithRenewal())
		waiting := make(chan error, 1)
		go func() {
			_, err := s.Acquire(t.Context())
			waiting <- err
		}()
		time.Sleep(time.Minute)
		ctx := p.Context()
		if err := locker.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("who waited for a permit has %v, want ErrClosed", err)
		}
		if !errors.Is(context.Cause(ctx), ErrClosed) || len(stray(fakes, "ql:slot:{s}0")) > 0 {
			t.Errorf("after Close the permit's context has %v, and the slot is taken at %v", context.Cause(ctx), stray(fakes, "ql:slot:{s}0"))
		}
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("TryAcquire after Close = %v, want ErrClosed", err)
		}
		synctest.Wait()
		if left, _ := locker.board.Nodes[0].Subscriber.Left(); left > 0 {
			t.Errorf("%d channels are still listened to", left)
		}
	})
}

func TestALineForPermitsListensWhileItWaitsAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		s := newSemaphore(t, locker, 5)
		var held []*Permit
		for range 5 {
			held = append(held, mustTake(t, s))
		}
		waiting := waitForPermit(t, s)
		time.Sleep(time.Second)
		if channels, _ := locker.board.Nodes[0].Subscriber.Left(); channels != 6 { // and the mark of who waits for several
			t.Errorf("who waits for any of 5 slots listens to %d channels of a node", channels)
		}
		if err := held[2].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-waiting
		time.Sleep(time.Second)
		if channels, _ := locker.board.Nodes[0].Subscriber.Left(); channels != 0 || s.slots.watch != nil {
			t.Errorf("when nobody waits, %d channels are listened to, and the watch is %v", channels, s.slots.watch)
		}
	})
}

func TestProcessesTakeTurnsForPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const permits, processes, callers, long = 10, 20, 5, 10 * time.Second
		_, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay, f.jitter = time.Millisecond, 500*time.Microsecond })
		}
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
						_ = p.Release(t.Context()) //nolint:contextcheck // ctx has ended by then
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
		if ideal := int32(permits * long / (20 * time.Millisecond)); sum < ideal*4/5 {
			t.Errorf("%d permits were had, want at least 80 %% of %d", sum, ideal)
		}
		if least < most/4 {
			t.Errorf("one process had %d permits and another %d: want none to have less than a quarter of another", least, most)
		}
	})
}
