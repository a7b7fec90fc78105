package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
)

func TestAMinorityOfDeadNodesChangesNothing(t *testing.T) {
	for _, tt := range []struct {
		nodes, refused, hung int
		want                 error
		within               time.Duration
	}{
		{nodes: 1, want: nil},
		{nodes: 1, refused: 1, want: ErrNoQuorum},
		{nodes: 2, refused: 1, want: ErrNoQuorum},
		{nodes: 3, refused: 1, want: nil},
		{nodes: 3, hung: 1, want: nil},
		{nodes: 3, refused: 1, hung: 1, want: ErrNoQuorum, within: defaultNodeTimeout},
		{nodes: 4, refused: 1, want: nil},
		{nodes: 4, refused: 2, want: ErrNoQuorum},
		{nodes: 4, hung: 2, want: ErrNoQuorum, within: defaultNodeTimeout},
		{nodes: 5, refused: 2, want: nil},
		{nodes: 5, hung: 2, want: nil},
		{nodes: 5, refused: 1, hung: 1, want: nil},
		{nodes: 5, refused: 3, want: ErrNoQuorum},
		{nodes: 5, hung: 3, want: ErrNoQuorum, within: defaultNodeTimeout},
		{nodes: 7, refused: 3, want: nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, tt.nodes)
			for i, f := range fakes {
				switch {
				case i < tt.refused:
					f.Change(refuse)
				case i < tt.refused+tt.hung:
					f.Stop()
				}
			}
			began := time.Now()
			lock, err := locker.TryAcquire(t.Context(), "k")
			if !errors.Is(err, tt.want) {
				t.Errorf("%d nodes, %d refused, %d hung: TryAcquire = %v, want %v", tt.nodes, tt.refused, tt.hung, err, tt.want)
			}
			wantWithin(t, tt.within, began, tt.nodes, "nodes,", tt.refused, "refused,", tt.hung, "hung: TryAcquire took")
			if err != nil {
				return
			}
			for name, do := range map[string]func() error{
				"Extend":  func() error { return lock.Extend(t.Context(), time.Minute) },
				"Confirm": func() error { _, err := lock.Confirm(t.Context()); return err },
			} {
				noError(t, do(), tt.nodes, "nodes,", tt.refused, "refused,", tt.hung, "hung", name)
			}
			noError(t, lock.Release(), tt.nodes, "nodes,", tt.refused, "refused,", tt.hung, "hung: Release")
			if took := time.Since(began); took != 0 {
				t.Errorf("%d nodes, %d refused, %d hung: the dead ones held up the others by %v", tt.nodes, tt.refused, tt.hung, took)
			}
			for _, f := range fakes {
				f.Change(func(f *fakeNode) { f.Refused = nil })
				f.Resume()
			}
		})
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

func TestTheErrorNamesEveryNodeAndWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		fakes[0].Change(refuse)
		fakes[1].Change(func(f *fakeNode) { f.Answer = failing("SET", "READONLY You can't write against a read only replica.") })
		_, err := locker.Acquire(t.Context(), "orders:42", WithMaxOutage(0))
		for _, want := range []string{"orders:42", "node-1", "connection refused", "node-2", "READONLY", "give the master's address"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not speak of %q: %v", want, err)
			}
		}
		var quorum *QuorumError
		if !errors.As(err, &quorum) || len(quorum.Votes) != 3 || quorum.Need != 2 {
			t.Errorf("Acquire = %#v, want a QuorumError with three votes", err)
		}
		var server *driver.ServerError
		if !errors.As(err, &server) || server.Code != "READONLY" {
			t.Errorf("no ServerError with the code READONLY in %v", err)
		}
	})
}

func TestAcquireWaitsForTheExpiryOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		for _, f := range fakes {
			f.Plant("k", "somebody", 3*time.Second)
		}
		began := time.Now()
		if _, err := locker.Acquire(t.Context(), "k"); err != nil {
			t.Fatalf("Acquire = %v", err)
		}
		if waited := time.Since(began); waited < 3*time.Second || waited > 3*time.Second+250*time.Millisecond {
			t.Errorf("Acquire waited %v for a key with 3s left", waited)
		}
	})
}

func TestWaitingHasItsBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		option AcquireOption
		least  time.Duration
		most   time.Duration
	}{
		"MaxWait 2s": {WithMaxWait(2 * time.Second), 2 * time.Second, 2 * time.Second},
		"MaxWait 0":  {WithMaxWait(0), 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			for _, f := range fakes {
				f.Plant("k", "somebody", time.Minute)
			}
			began := time.Now()
			_, err := locker.Acquire(t.Context(), "k", tt.option)
			if !errors.Is(err, ErrTaken) || errors.Is(err, ErrNoQuorum) {
				t.Errorf("%s: Acquire = %v, want ErrTaken", name, err)
			}
			if waited := time.Since(began); waited < tt.least || waited > tt.most {
				t.Errorf("%s: Acquire waited %v, want %v to %v", name, waited, tt.least, tt.most)
			}
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

func TestANodeThatComesBackVotesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		changeAll(fakes[:2], refuse)
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
			t.Fatalf("TryAcquire = %v, want ErrNoQuorum", err)
		}
		fakes[0].Change(func(f *fakeNode) { f.Refused = nil })
		time.Sleep(node.MinCooldown)
		lock, err := locker.TryAcquire(t.Context(), "k")
		must(t, err, "TryAcquire after the node is back")
		synctest.Wait()
		if votes := lock.Votes(); votes[0].Answer != grantedVote || votes[1].Answer != failedVote || votes[2].Answer != grantedVote {
			t.Errorf("Votes = %v", votes)
		}
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

// A node whose request has waited in its queue knows of the lease later than the others.
func TestTheDeadlineIsCountedFromTheFirstOfTheVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 2)
		warm(t, locker)
		gate := make(chan struct{})
		fakes[1].Change(func(f *fakeNode) { f.Hold = func(string) <-chan struct{} { return gate } })
		go func() { _, _ = locker.TryAcquire(t.Context(), "other") }()
		synctest.Wait() // and the next one has to wait until this batch is back
		start := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { close(gate) })
		lock := mustTry(t, locker, "k")
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Fatalf("TryAcquire took %v: no request has waited, and this test shows nothing", took)
		}
		if want := start.Add(10*time.Second - 102*time.Millisecond); !lock.Until().Equal(want) {
			t.Errorf("Until = start + %v, want start + TTL − 1%% − 2ms", lock.Until().Sub(start))
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

func TestALockIsTakenRefusedReleasedAndTakenAgain(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, n)
			lock, err := locker.TryAcquire(t.Context(), "k")
			must(t, err, n, "nodes: TryAcquire")
			returns(t, ErrTaken, n, "nodes: the second TryAcquire")(locker.TryAcquire(t.Context(), "k"))
			noError(t, lock.Extend(t.Context(), 20*time.Second), n, "nodes: Extend")
			wantHeld(t, lock, true)
			ctx := lock.Context()
			noError(t, lock.Release(), n, "nodes: Release")
			if context.Cause(ctx) != ErrReleased {
				t.Errorf("%d nodes: the context ended with %v, want ErrReleased", n, context.Cause(ctx))
			}
			synctest.Wait()
			wantFree(t, fakes, "k", n)
			again, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Errorf("%d nodes: TryAcquire after the release = %v", n, err)
			} else if again.Token() == lock.Token() {
				t.Errorf("%d nodes: two acquires share the token", n)
			}
			noError(t, locker.Close(), n, "nodes: Close")
			wantFree(t, fakes, "k", n)
		})
	}
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
