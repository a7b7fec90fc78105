package redlock

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// freeze makes the way to a node stall for some time. What is sent meanwhile gets lost.
func freeze(f *fakeNode, lasts time.Duration) {
	f.Stop()
	time.Sleep(lasts)
	f.Change(func(f *fakeNode) {
		f.Wake()
		f.Buffer = nil
	})
}

// An unknown outcome is forgotten one TTL after its node has answered again, and later
// stalls of the node do not begin that anew.
func TestStallsThatRecurWithinATTLDoNotPileUpCleanUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, every, lasts, ttl = 50, 4400 * time.Millisecond, 400 * time.Millisecond, 10 * time.Second
		locker, fakes := newLocker(t, 3, WithTTL(ttl))
		warm(t, locker)
		ends := time.Now().Add(time.Duration(some(4)) * 15 * time.Second)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for key := fmt.Sprint("k", i); time.Now().Before(ends); time.Sleep(200 * time.Millisecond) {
					noError(t, passing(locker.TryAcquire(t.Context(), key)))
				}
			})
		}
		// Those of a TTL, and of the stall that has just been.
		const bound = callers * (int(ttl/every) + 2)
		for began := time.Now(); time.Now().Before(ends); {
			time.Sleep(every - lasts)
			freeze(fakes[0], lasts)
			count := outstanding(locker)
			if count > bound {
				t.Errorf("after %v of stalls %d clean-ups wait for their next try, want at most %d", time.Since(began), count, bound)
				break
			}
		}
		all.Wait()
		time.Sleep(ttl + 2*time.Second)
		if count := outstanding(locker); count > 0 {
			t.Errorf("%d clean-ups are left one TTL after the last stall", count)
		}
	})
}

// releasedWithout takes locks and releases them while a node does not do its part.
func releasedWithout(t *testing.T, locker *Locker, f *fakeNode, fail func(*fakeNode), count int) {
	t.Helper()
	var locks []*Lock
	for i := range count {
		locks = append(locks, mustAcquire(t, locker, fmt.Sprint("k", i)))
	}
	fail(f)
	for _, lock := range locks {
		mustRelease(t, lock)
	}
	if left := len(f.Keys); left != count {
		t.Fatalf("the test does not show the fault: the node has %d keys, want %d", left, count)
	}
}

func TestCleanUpsWaitTogetherForANodeThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 687
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
		warm(t, locker)
		n := locker.board.Nodes[0]
		releasedWithout(t, locker, fakes[0], (*fakeNode).Stop, count)
		time.Sleep(2 * time.Second) // the releases themselves have failed
		for range 10 * 60 * 10 {    // ten minutes
			time.Sleep(100 * time.Millisecond)
			asked := n.Pending()
			if asked > 1 {
				t.Fatalf("%d clean-ups wait for the next question to a node that is down, want one", asked)
			}
		}
		fakes[0].Resume()
		time.Sleep(node.MaxCooldown + 2*quorum.LastPause)
		synctest.Wait()
		if left := len(fakes[0].Keys); left > 0 {
			t.Errorf("the node has woken up, and %d of %d keys are left", left, count)
		}
	})
}

func TestWhatMustHaveExpiredAtANodeThatIsDownIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count, ttl = 100, 10 * time.Second
		locker, fakes := newLocker(t, 3, WithTTL(ttl))
		releasedWithout(t, locker, fakes[0], func(f *fakeNode) { f.Change(refuse) }, count)
		time.Sleep(ttl + 2*quorum.LastPause)
		if left := outstanding(locker); left != 0 {
			t.Errorf("%d clean-ups wait for keys that have expired, at a node that is down", left)
		}
	})
}

// cleanedSoon fails the test if a lost lock's key k stays at a node.
func cleanedSoon(t *testing.T, fakes []*fakeNode) {
	t.Helper()
	time.Sleep(wakeCheck + 2*quorum.LastPause) // a lock without a context is looked at once a second
	synctest.Wait()
	for _, f := range fakes {
		if token, left := f.Token("k"); token != "" {
			t.Errorf("the lock is lost, and %s keeps its key for %v", f.Name(), left)
		}
	}
}

func TestWhatAnExtendThatWasGivenUpHasSetGoesWithTheLock(t *testing.T) {
	for _, timer := range []bool{true, false} { // a lock has one if its context was asked for
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(4*time.Second))
			warm(t, locker)
			lock := mustAcquire(t, locker, "k")
			if timer {
				lock.Context()
			}
			far(fakes, 100*time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond) // it runs after 50ms
			defer cancel()
			returns(t, context.DeadlineExceeded)(lock.Extend(ctx, 2*time.Hour))
			if _, left := fakes[0].Token("k"); left < time.Hour {
				t.Fatalf("the test does not show the fault: the lease at the node is %v", left)
			}
			time.Sleep(time.Until(lock.Until()))
			cleanedSoon(t, fakes)
		})
	}
}

func TestWhatFailedRenewalsHaveSetGoesWithTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5, WithTTL(10*time.Second))
		warm(t, locker)
		lock := mustAcquire(t, locker, "k", WithRenewal())
		changeAll(fakes[:3], refuse)
		time.Sleep(time.Until(lock.Until()))
		if _, left := fakes[4].Token("k"); left < 2*time.Second {
			t.Fatalf("the test does not show the fault: the lease at the node is %v", left)
		}
		cleanedSoon(t, fakes[3:])
	})
}

func TestALockThatRunsOutCostsTheNodesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(4*time.Second))
		warm(t, locker)
		lock := mustAcquire(t, locker, "k")
		noError(t, lock.Extend(t.Context(), 8*time.Second))
		mustAcquire(t, locker, "l").Context()
		synctest.Wait()
		before := fakes[0].Batches()
		time.Sleep(20 * time.Second)
		if after := fakes[0].Batches(); after != before {
			t.Errorf("two locks ran out, and a node was sent %d batches for that", after-before)
		}
	})
}

// Their own pauses may end whenever a node that stalls again and again is silent.
func TestCleanUpsAreTriedAsSoonAsTheirNodeAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		releasedWithout(t, locker, fakes[0], (*fakeNode).Stop, 2*node.MaxBatch)
		time.Sleep(defaultNodeTimeout)
		freeze(fakes[0], defaultNodeTimeout)
		for !locker.board.Nodes[0].Up() {
			noError(t, passing(locker.TryAcquire(t.Context(), "other")))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if left := len(fakes[0].Keys); left > 0 {
			t.Errorf("the node has answered 50 ms ago, and has the keys of %d released locks", left)
		}
	})
}

// What a command that was lost may still set is released now and then until a TTL is over. A node
// that comes and goes is not asked for it each time that it comes.
func TestWhatANodeHasAnsweredIsNotTriedEachTimeThatItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count, flaps = 20, 10
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
		warm(t, locker)
		back := func() {
			for !locker.board.Nodes[0].Up() {
				noError(t, passing(locker.TryAcquire(t.Context(), "other")))
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Second)
		}
		fakes[0].Change(func(f *fakeNode) { f.Lose = func(name string) bool { return name == "SET" } })
		for i := range count {
			noError(t, passing(locker.TryAcquire(t.Context(), fmt.Sprint("lost", i))))
			back()
		}
		fakes[0].Change(func(f *fakeNode) { f.Lose = nil })
		back()
		var asked strings.Builder
		fakes[0].Change(func(f *fakeNode) { f.Ran = &asked })
		for range flaps {
			fakes[0].Change(refuse)
			noError(t, passing(locker.TryAcquire(t.Context(), "other")))
			fakes[0].Change(func(f *fakeNode) { f.Refused = nil })
			back()
		}
		synctest.Wait()
		if tries := strings.Count(asked.String(), "lost"); tries > 2*count {
			t.Errorf("%d clean-ups were tried %d times while their node came back %d times within %v of an hour", count, tries, flaps, flaps*time.Second)
		}
		if outstanding(locker) == 0 {
			t.Error("the test does not show the fault: no command was lost")
		}
	})
}

// A connection breaks behind the time of a request, which has given up its place in the key's queue by then:
// what the request would set, sent again, nobody would release.
func TestWhatHadItsTimeIsNotSentAgainBehindTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, nodes := fakeNodes(3)
		changeAll(fakes, func(f *fakeNode) { f.Delay = time.Millisecond }) // so far that a node has several batches at once
		var slow, breaks atomic.Bool
		nodes[2].Driver = driverFunc(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
			replies, err := fakes[2].Do(ctx, cmds)
			switch {
			case slow.CompareAndSwap(true, false):
				time.Sleep(defaultNodeTimeout / 4)
			case breaks.CompareAndSwap(true, false):
				time.Sleep(defaultNodeTimeout * 15 / 16)
				return nil, io.ErrUnexpectedEOF
			}
			return replies, err
		})
		locker, err := New(nodes, WithoutRenewal(), WithTTL(time.Hour))
		must(t, err)
		defer locker.Close()
		mustRelease(t, mustAcquire(t, locker, "k"))
		lock := mustAcquire(t, locker, "k")
		synctest.Wait()
		slow.Store(true)
		mustRelease(t, lock)
		lock = mustAcquire(t, locker, "k") // behind the release at the third node, and so the node is not silent for all of its time
		synctest.Wait()
		breaks.Store(true)
		time.Sleep(defaultNodeTimeout / 4)
		synctest.Wait() // the third node is asked
		mustRelease(t, lock)
		time.Sleep(time.Minute)
		if names := stray(fakes, "k"); names != nil || breaks.Load() {
			t.Errorf("a minute later the key is at %v", names)
		}
	})
}
