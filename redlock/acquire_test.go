package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// 2. Extend and release have no time-out of their own for each node.
func TestPitfall02AMinorityOfDeadNodesHoldsUpNothing(t *testing.T) {
	for _, tt := range []struct {
		nodes, refused, hung int
		want                 error
		within               time.Duration
	}{
		{nodes: 1, want: nil},
		{nodes: 1, refused: 1, want: ErrNoQuorum},
		{nodes: 2, want: nil},
		{nodes: 2, refused: 1, want: ErrNoQuorum},
		{nodes: 3, want: nil},
		{nodes: 3, refused: 1, want: nil},
		{nodes: 3, hung: 1, want: nil},
		{nodes: 3, refused: 1, hung: 1, want: ErrNoQuorum, within: defaultNodeTimeout},
		{nodes: 4, want: nil},
		{nodes: 4, refused: 1, want: nil},
		{nodes: 4, refused: 2, want: ErrNoQuorum},
		{nodes: 4, hung: 2, want: ErrNoQuorum, within: defaultNodeTimeout},
		{nodes: 5, want: nil},
		{nodes: 5, refused: 2, want: nil},
		{nodes: 5, hung: 2, want: nil},
		{nodes: 5, refused: 1, hung: 1, want: nil},
		{nodes: 5, refused: 3, want: ErrNoQuorum},
		{nodes: 5, hung: 3, want: ErrNoQuorum, within: defaultNodeTimeout},
		{nodes: 6, want: nil},
		{nodes: 7, want: nil},
		{nodes: 7, refused: 3, want: nil},
	} {
		for _, met := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%d nodes, %d refused, %d hung, met before: %t", tt.nodes, tt.refused, tt.hung, met), func(t *testing.T) {
				locker, fakes := newLocker(t, tt.nodes)
				if met {
					warm(t, locker)
				}
				changeAll(fakes[:tt.refused], refuse)
				forEach(fakes[tt.refused:tt.refused+tt.hung], (*fakeNode).Stop)
				began := time.Now()
				lock, err := locker.TryAcquire(t.Context(), "k")
				returns(t, tt.want, "TryAcquire")(err)
				wantWithin(t, tt.within, began, "TryAcquire took")
				if err != nil {
					return
				}
				if tt.refused+tt.hung == 0 { // a silent node might hide votes of somebody else, for whom a try waits a moment
					returns(t, ErrTaken, "the second TryAcquire")(locker.TryAcquire(t.Context(), "k"))
				}
				noError(t, lock.Extend(t.Context(), time.Minute), "Extend")
				wantHeld(t, lock, true)
				noError(t, lock.Release(), "Release")
				again, err := locker.TryAcquire(t.Context(), "k")
				must(t, err, "TryAcquire after the release")
				if again.Token() == lock.Token() || again.Fence() != 0 {
					t.Errorf("two acquires share the token, or without WithFences one has the fence %d", again.Fence())
				}
				noError(t, again.Release(), "Release")
				wantWithin(t, 0, began, "the dead ones held up the others by")
				synctest.Wait()
				wantFree(t, fakes[tt.refused+tt.hung:], "k")
				changeAll(fakes, func(f *fakeNode) { f.Refused = nil })
				forEach(fakes, (*fakeNode).Resume)
			})
		}
	}
}

func TestAnAttemptThatCannotSucceedAnyMoreWaitsForNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		fail func(f *fakeNode)
		want error
	}{
		"refuse":           {refuse, ErrNoQuorum},
		"have another key": {func(f *fakeNode) { f.Put("k", "somebody", time.Hour) }, ErrTaken},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			warm(t, locker)
			for i, f := range fakes {
				if i < 3 {
					f.Change(tt.fail)
				} else {
					f.Stop()
				}
			}
			start := time.Now()
			_, err := locker.TryAcquire(t.Context(), "k")
			if took := time.Since(start); !errors.Is(err, tt.want) || took != 0 {
				t.Errorf("three of five nodes %s, and two are silent: TryAcquire = %v after %v, want %v at once", name, err, took, tt.want)
			}
			forEach(fakes[3:], (*fakeNode).Resume)
		})
	}
}

func TestAnOutageIsWaitedThroughForOneTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(4*time.Second))
		changeAll(fakes[:2], refuse)
		began := time.Now()
		returns(t, ErrNoQuorum, "Acquire with two of three nodes dead")(locker.Acquire(t.Context(), "k"))
		if waited := time.Since(began); waited < 4*time.Second || waited > 4500*time.Millisecond {
			t.Errorf("Acquire gave up after %v, want one TTL of 4s", waited)
		}
		time.AfterFunc(2*time.Second, func() { fakes[0].Change(func(f *fakeNode) { f.Refused = nil }) })
		returns(t, nil, "Acquire through an outage of 2s")(locker.Acquire(t.Context(), "k"))
	})
}

func TestALateVoteStillCountsForTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		fakes[2].Change(func(f *fakeNode) { f.Delay = 20 * time.Millisecond })
		lock := mustTry(t, locker, "k")
		if vote := lock.Votes()[2]; vote.Answer != pendingVote {
			t.Errorf("the slow node's vote was waited for: %v", vote)
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if vote := lock.Votes()[2]; vote.Answer != grantedVote || vote.Latency != 20*time.Millisecond {
			t.Errorf("the late vote is %v, want granted after 20ms", vote)
		}
	})
}

func TestCallersAtTheSameTimeShareBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		changeAll(fakes, func(f *fakeNode) { f.Delay, f.Calls = 100*time.Microsecond, 0 })
		const callers = 1000
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				returns(t, nil)(locker.TryAcquire(t.Context(), fmt.Sprint("k", i)))
			})
		}
		group.Wait()
		synctest.Wait()
		for _, f := range fakes {
			if f.Batches() > 20 {
				t.Errorf("%d callers at the same time made %d batches at %s", callers, f.Batches(), f.Name())
			}
		}
	})
}

func TestTheDeadlineIsCountedFromBeforeTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Second))
		warm(t, locker)
		far(fakes, 100*time.Millisecond)
		start := time.Now()
		lock := mustTry(t, locker, "k")
		want := start.Add(time.Second - 10*time.Millisecond - 2*time.Millisecond)
		if until := lock.Until(); !until.Equal(want) {
			t.Errorf("Until = start + %v, want start + TTL − 1%% − 2ms", until.Sub(start))
		}
		ctx := lock.Context()
		<-ctx.Done()
		if !time.Now().Equal(want) || context.Cause(ctx) != ErrLost {
			t.Errorf("the context ended at start + %v with %v, want start + 988ms with ErrLost", time.Since(start), context.Cause(ctx))
		}
		if lock.Valid() {
			t.Error("the lock is valid after its deadline")
		}
	})
}

// A caller who tries again at once must not be refused by what his own last try has
// left, because the clean-up comes after him.
func TestATryIsNotRefusedByItsOwnPreviousOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		for range 200 {
			fakes[0].Plant("k", "somebody", time.Hour)
			fakes[1].Plant("k", "somebody", time.Hour)
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrTaken) {
				t.Fatalf("TryAcquire = %v, want ErrTaken", err)
			}
			fakes[0].Change(func(f *fakeNode) { delete(f.Keys, "k") })
			fakes[1].Plant("k", "somebody", time.Hour)
			lock, err := locker.TryAcquire(t.Context(), "k")
			must(t, err, "TryAcquire with one foreign key of three")
			fakes[1].Change(func(f *fakeNode) { delete(f.Keys, "k") })
			mustRelease(t, lock)
		}
	})
}

// A node that answers one batch after the other is not silent, however long a request has
// waited for its turn.
func TestWaitingForOthersIsNotBlamedOnTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events recorder
		locker, fakes := newLocker(t, 3, events.option())
		warm(t, locker) // to nodes so near there is one batch at a time
		far(fakes, 200*time.Millisecond)
		first := async(func() error { _, err := locker.TryAcquire(t.Context(), "a"); return err })
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		if _, err := locker.TryAcquire(t.Context(), "b"); err != nil {
			t.Errorf("behind a batch that took 190ms more, on nodes that take 200ms and may take 250ms: %v after %v", err, time.Since(began))
		}
		noError(t, <-first, "the batch before it")
		if kinds := events.kinds(); slices.Contains(kinds, NodeDown) {
			t.Errorf("the node was blamed: %v", kinds)
		}
	})
}

// Where other goroutines compute, a reply waits for its reader, and its reader for its turn.
func TestAReplyThatWaitsToBeReadCountsWhenItsTimeIsUp(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines run in turn
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		changeAll(fakes, func(f *fakeNode) {
			f.Hold = func(string) <-chan struct{} {
				read := make(chan struct{})
				time.AfterFunc(defaultNodeTimeout, func() {
					runtime.Gosched()
					close(read)
				})
				return read
			}
		})
		lock := mustTry(t, locker, "k")
		changeAll(fakes, func(f *fakeNode) { f.Hold = nil })
		noError(t, lock.Release(), "Release")
	})
}
