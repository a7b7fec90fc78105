package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
)

var errRefused = fmt.Errorf("dial tcp: connection refused: %w", driver.ErrNotSent)

func refuse(f *fakeNode) { f.refused = errRefused }

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
					f.change(refuse)
				case i < tt.refused+tt.hung:
					f.stop()
				}
			}
			began := time.Now()
			lock, err := locker.TryAcquire(t.Context(), "k")
			if !errors.Is(err, tt.want) {
				t.Errorf("%d nodes, %d refused, %d hung: TryAcquire = %v, want %v", tt.nodes, tt.refused, tt.hung, err, tt.want)
			}
			if took := time.Since(began); took > tt.within {
				t.Errorf("%d nodes, %d refused, %d hung: TryAcquire took %v, want at most %v", tt.nodes, tt.refused, tt.hung, took, tt.within)
			}
			if err != nil {
				return
			}
			for name, do := range map[string]func() error{
				"Extend": func() error { return lock.Extend(t.Context(), time.Minute) },
				"Held":   func() error { _, err := lock.Held(t.Context()); return err },
			} {
				if err := do(); err != nil {
					t.Errorf("%d nodes, %d refused, %d hung: %s = %v", tt.nodes, tt.refused, tt.hung, name, err)
				}
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("%d nodes, %d refused, %d hung: Release = %v", tt.nodes, tt.refused, tt.hung, err)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("%d nodes, %d refused, %d hung: the dead ones held up the others by %v", tt.nodes, tt.refused, tt.hung, took)
			}
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.refused = nil })
				if f.hung != nil {
					f.resume()
				}
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
		"have another key": {func(f *fakeNode) { f.keys["k"] = fakeKey{"somebody", time.Now().Add(time.Hour)} }, ErrTaken},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 5)
			warm(t, locker)
			for i, f := range fakes {
				if i < 3 {
					f.change(tt.fail)
				} else {
					f.stop()
				}
			}
			start := time.Now()
			_, err := locker.TryAcquire(t.Context(), "k")
			if took := time.Since(start); !errors.Is(err, tt.want) || took != 0 {
				t.Errorf("three of five nodes %s, and two are silent: TryAcquire = %v after %v, want %v at once", name, err, took, tt.want)
			}
			for _, f := range fakes[3:] {
				f.resume()
			}
		})
	}
}

func TestTheErrorNamesEveryNodeAndWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		fakes[0].change(refuse)
		fakes[1].change(func(f *fakeNode) { f.answer = failing("SET", "READONLY You can't write against a read only replica.") })
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

// failing answers one command with an error reply.
func failing(command, text string) func([]any) *driver.Reply {
	return func(args []any) *driver.Reply {
		if args[0] != command {
			return nil
		}
		return &driver.Reply{Kind: driver.Failure, Str: text}
	}
}

func TestAcquireWaitsForTheExpiryOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 5)
		for _, f := range fakes {
			f.plant("k", "somebody", 3*time.Second)
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
		"MaxWait 2s":   {WithMaxWait(2 * time.Second), 2 * time.Second, 2 * time.Second},
		"MaxWait 0":    {WithMaxWait(0), 0, 0},
		"RetryLimit 0": {WithRetryLimit(0), 0, 0},
		"RetryLimit 3": {WithRetryLimit(3), 0, 35*time.Millisecond + 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			for _, f := range fakes {
				f.plant("k", "somebody", time.Minute)
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
		fakes[0].change(refuse)
		fakes[1].change(refuse)
		began := time.Now()
		if _, err := locker.Acquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("Acquire with two of three nodes dead = %v, want ErrNoQuorum", err)
		}
		if waited := time.Since(began); waited < 4*time.Second || waited > 4500*time.Millisecond {
			t.Errorf("Acquire gave up after %v, want one TTL of 4s", waited)
		}
		time.AfterFunc(2*time.Second, func() { fakes[0].change(func(f *fakeNode) { f.refused = nil }) })
		if _, err := locker.Acquire(t.Context(), "k"); err != nil {
			t.Errorf("Acquire through an outage of 2s = %v", err)
		}
	})
}

func TestANodeThatComesBackVotesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		fakes[0].change(refuse)
		fakes[1].change(refuse)
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
			t.Fatalf("TryAcquire = %v, want ErrNoQuorum", err)
		}
		fakes[0].change(func(f *fakeNode) { f.refused = nil })
		time.Sleep(node.MinCooldown)
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("TryAcquire after the node is back = %v", err)
		}
		synctest.Wait()
		if votes := lock.Votes(); votes[0].Answer != Granted || votes[1].Answer != Failed || votes[2].Answer != Granted {
			t.Errorf("Votes = %v", votes)
		}
	})
}

func TestALateVoteStillCountsForTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		fakes[2].change(func(f *fakeNode) { f.delay = 20 * time.Millisecond })
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("TryAcquire = %v", err)
		}
		if vote := lock.Votes()[2]; vote.Answer != Pending {
			t.Errorf("the slow node's vote was waited for: %v", vote)
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if vote := lock.Votes()[2]; vote.Answer != Granted || vote.Latency != 20*time.Millisecond {
			t.Errorf("the late vote is %v, want granted after 20ms", vote)
		}
	})
}

// warm makes the nodes known and their scripts loaded.
func warm(t *testing.T, locker *Locker) {
	t.Helper()
	lock, err := locker.TryAcquire(t.Context(), "warm")
	if err != nil {
		t.Fatalf("TryAcquire = %v", err)
	}
	synctest.Wait() // or what has not left yet is not needed any more
	if err := lock.Extend(t.Context(), time.Minute); err != nil {
		t.Fatalf("Extend = %v", err)
	}
	synctest.Wait()
	if err := lock.Release(t.Context()); err != nil {
		t.Fatalf("Release = %v", err)
	}
	synctest.Wait()
}

func TestCallersAtTheSameTimeShareBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay, f.calls = 100*time.Microsecond, 0 })
		}
		const callers = 1000
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				if _, err := locker.TryAcquire(t.Context(), fmt.Sprint("k", i)); err != nil {
					t.Errorf("TryAcquire = %v", err)
				}
			})
		}
		group.Wait()
		synctest.Wait()
		for _, f := range fakes {
			if f.batches() > 20 {
				t.Errorf("%d callers at the same time made %d batches at %s", callers, f.batches(), f.name)
			}
		}
	})
}

func TestTheDeadlineIsCountedFromBeforeTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Second))
		warm(t, locker)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 100 * time.Millisecond })
		}
		start := time.Now()
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("TryAcquire = %v", err)
		}
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
		fakes[1].change(func(f *fakeNode) { f.hold = func(string) <-chan struct{} { return gate } })
		go func() { _, _ = locker.TryAcquire(t.Context(), "other") }()
		synctest.Wait() // and the next one has to wait until this batch is back
		start := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { close(gate) })
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("TryAcquire = %v", err)
		}
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Fatalf("TryAcquire took %v: no request has waited, and this test shows nothing", took)
		}
		if want := start.Add(10*time.Second - 102*time.Millisecond); !lock.Until().Equal(want) {
			t.Errorf("Until = start + %v, want start + TTL − 1%% − 2ms", lock.Until().Sub(start))
		}
	})
}

func TestACancelledRequestEndsTheHoldsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := locker.Acquire(ctx, "k")
		if err != nil {
			t.Fatalf("Acquire = %v", err)
		}
		held := lock.Context()
		cancel()
		if !errors.Is(held.Err(), context.Canceled) {
			t.Errorf("the lock's context outlives that of the acquire")
		}
		if err := lock.Release(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("Release = %v", err)
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
			fakes[0].plant("k", "somebody", time.Hour)
			fakes[1].plant("k", "somebody", time.Hour)
			if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrTaken) {
				t.Fatalf("TryAcquire = %v, want ErrTaken", err)
			}
			fakes[0].change(func(f *fakeNode) { delete(f.keys, "k") })
			fakes[1].plant("k", "somebody", time.Hour)
			lock, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Fatalf("TryAcquire with one foreign key of three = %v", err)
			}
			fakes[1].change(func(f *fakeNode) { delete(f.keys, "k") })
			if err := lock.Release(t.Context()); err != nil {
				t.Fatalf("Release = %v", err)
			}
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
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 200 * time.Millisecond })
		}
		first := make(chan error, 1)
		go func() {
			_, err := locker.TryAcquire(t.Context(), "a")
			first <- err
		}()
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		if _, err := locker.TryAcquire(t.Context(), "b"); err != nil {
			t.Errorf("behind a batch that took 190ms more, on nodes that take 200ms and may take 250ms: %v after %v", err, time.Since(began))
		}
		if err := <-first; err != nil {
			t.Errorf("the batch before it: %v", err)
		}
		if kinds := events.kinds(); slices.Contains(kinds, NodeDown) {
			t.Errorf("the node was blamed: %v", kinds)
		}
	})
}
