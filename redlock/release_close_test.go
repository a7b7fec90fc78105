package redlock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

func TestCloseDoesNotWaitForWhatAMinorityHas(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(t *testing.T, f *fakeNode, lock func() *Lock)
	}{
		{"an unknown outcome", func(t *testing.T, f *fakeNode, lock func() *Lock) {
			f.Stop()
			mustRelease(t, lock())
		}},
		{"a key that the node has", func(t *testing.T, f *fakeNode, lock func() *Lock) {
			held := lock()
			f.Change(refuse)
			mustRelease(t, held)
		}},
		{"the key of a lock that is held", func(_ *testing.T, f *fakeNode, lock func() *Lock) {
			lock()
			f.Change(refuse)
		}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
			warm(t, locker)
			tt.leave(t, fakes[0], func() *Lock { return mustAcquire(t, locker, "k") })
			time.Sleep(time.Second)
			began := time.Now()
			if err := locker.Close(); err != nil || time.Since(began) > 0 {
				t.Errorf("Close = %v after %v, want nil at once: a quorum has confirmed the release", err, time.Since(began))
			}
		})
	}
}

// Nobody holds what a failed attempt has set, and yet it keeps everybody out.
func TestCloseWaitsUntilAQuorumIsCleanOfAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
		warm(t, locker)
		forEach(fakes, (*fakeNode).Stop)
		returns(t, ErrNoQuorum, "TryAcquire over silent nodes")(locker.TryAcquire(t.Context(), "k"))
		go func() {
			time.Sleep(time.Second)
			forEach(fakes[:2], (*fakeNode).Resume)
		}()
		began := time.Now()
		if err := locker.Close(); err != nil || time.Since(began) < time.Second {
			t.Errorf("Close = %v after %v, want nil once two of three nodes have woken up and said that the token is not there", err, time.Since(began))
		}
		wantFree(t, fakes, "k")
	})
}

// Nodes get a share of the TTL to answer, and a lock may have a longer one than its Locker.
func TestCloseWaitsForAQuorumForLongerThanForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(400*time.Millisecond))
		warm(t, locker)
		mustAcquire(t, locker, "k", WithTTL(time.Hour))
		far(fakes, 150*time.Millisecond)
		began := time.Now()
		if err := locker.Close(); err != nil || time.Since(began) != 150*time.Millisecond {
			t.Errorf("Close = %v after %v, want nil after 150ms, as far as the nodes are away", err, time.Since(began))
		}
	})
}

// An ownerNode is a fake node whose driver has a client of its own.
type ownerNode struct {
	*fakeNode
	closed atomic.Int32
}

func (n *ownerNode) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if n.closed.Load() > 0 {
		return nil, driver.NotSent(fmt.Errorf("owner: %w", driver.ErrClosed))
	}
	return n.fakeNode.Do(ctx, cmds)
}

func (n *ownerNode) Close() error {
	n.closed.Add(1)
	return nil
}

// ownerNodes returns n such nodes.
func ownerNodes(n int) ([]*ownerNode, []driver.Node) {
	fakes, nodes := fakeNodes(n)
	owners := make([]*ownerNode, n)
	for i, f := range fakes {
		owners[i] = &ownerNode{fakeNode: f}
		nodes[i].Driver = owners[i]
	}
	return owners, nodes
}

func TestLockersMayShareNodesAndTheLastOneClosesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners, nodes := ownerNodes(3)
		made := func(nodes []driver.Node) *Locker {
			locker, err := New(nodes)
			must(t, err)
			return locker
		}
		one, two := made(nodes), made(nodes)
		part := made(nodes[:1]) // which has one of them
		closed := func(locker *Locker, want ...int32) {
			t.Helper()
			for range 2 { // only the first call counts
				must(t, locker.Close())
			}
			for i, n := range owners {
				if n.closed.Load() != want[i] {
					t.Errorf("the driver of %s was closed %d times, want %d", n.Name(), n.closed.Load(), want[i])
				}
			}
		}
		closed(one, 0, 0, 0)
		mustRelease(t, mustAcquire(t, two, "k"))
		closed(two, 0, 1, 1)
		mustRelease(t, mustAcquire(t, part, "k"))
		closed(part, 1, 1, 1)

		users.mu.Lock()
		defer users.mu.Unlock()
		for _, n := range owners {
			if count, there := users.of[n]; there {
				t.Errorf("%s is remembered with %d users when all have closed", n.Name(), count)
			}
		}
	})
}

// Silence, or an outage that is waited out, would say nothing of what to do.
func TestALockerOnNodesThatWereClosedSaysSoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners, _ := ownerNodes(3)
		_ = another(t, owners).Close()
		locker := another(t, owners)
		start := time.Now()
		says(t, driver.ErrClosed, "make the nodes anew")(locker.Acquire(t.Context(), "k"))
		wantWithin(t, time.Second, start, "that took")
	})
}

func TestCloseLeavesNothingOfAcquiresAndReleasesThatItMeets(t *testing.T) {
	const callers = 16
	for range some(300) {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 3)
			var work sync.WaitGroup
			for i := range callers {
				lock := mustAcquire(t, locker, fmt.Sprint("held ", i))
				work.Go(func() { _ = lock.Release() })
				work.Go(func() { _, _ = locker.Acquire(t.Context(), fmt.Sprint("free ", i)) })
			}
			noError(t, locker.Close())
			work.Wait()
			changeAll(fakes, func(f *fakeNode) {
				if len(f.Keys) != 0 {
					t.Errorf("%s has %v", f.Name(), f.Keys)
				}
			})
		})
	}
}

func TestCloseIsBoundedOverSilentNodesAndSaysWhatIsLeft(t *testing.T) {
	const usual = 2 * time.Second
	for _, bound := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond, 1600 * time.Millisecond, usual, 2600 * time.Millisecond} {
		bubble(t, bound.String(), func(t *testing.T) {
			options := []Option{WithTTL(time.Hour), WithCloseTimeout(bound)}
			if bound == usual {
				options = nil
			}
			locker, fakes := newLocker(t, 3, options...)
			warm(t, locker)
			mustAcquire(t, locker, "k")
			forEach(fakes[:2], (*fakeNode).Stop)
			began := time.Now()
			err := locker.Close()
			wantWithin(t, bound+50*time.Millisecond, began, "Close took")
			var left *closeError
			if !errors.As(err, &left) || !errors.Is(err, ErrNoQuorum) {
				t.Fatalf("Close over two of three nodes that are silent and have a key = %v, want a closeError", err)
			}
			want := []unreleasedKey{{"k", []string{"node-1", "node-2", "node-3"}}}
			if bound > 0 { // the third one has had time to answer
				want[0].Nodes = want[0].Nodes[:2]
			}
			if !reflect.DeepEqual(left.Keys, want) {
				t.Errorf("Close says that %v are left, want %v", left.Keys, want)
			}
		})
	}
}

func TestCloseGivesUpOnADriverThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, nodes := fakeNodes(3)
		locker, err := New(nodes)
		must(t, err)
		warm(t, locker)
		forever := make(chan struct{})
		fakes[0].Change(func(f *fakeNode) { f.Block = forever })
		mustTry(t, locker, "k")
		synctest.Wait() // it is called
		if err := locker.Close(); err == nil || !strings.Contains(err.Error(), "did not return") {
			t.Errorf("Close = %v, want that a driver did not return", err)
		}
		close(forever)
	})
}

func TestCloseEndsAllWaiting(t *testing.T) {
	for kind, take := range kindsOfLocks {
		bubble(t, kind, func(t *testing.T) {
			ours, fakes := newLocker(t, 5)
			holdAll(t, another(t, fakes), kind, WithTTL(time.Hour))
			wait := func() error { return passing(take(ours, t.Context())) }
			var results []<-chan error
			for range 10 {
				results = append(results, async(wait))
			}
			time.Sleep(time.Second)
			noError(t, ours.Close())
			for _, result := range results {
				if err := <-result; !errors.Is(err, ErrClosed) || !errors.Is(err, ErrTaken) {
					t.Errorf("an acquire that waits when the Locker is closed = %v, want ErrClosed and ErrTaken", err)
				}
			}
			returns(t, ErrClosed, "an acquire after Close")(wait())
			for _, f := range fakes {
				if left := f.Listeners(protocol.WakeChannel); left != 0 {
					t.Errorf("%d subscriptions to %s outlive Close", left, f.Name())
				}
			}
		})
	}
}

// A Close that ends what was out says nothing of the node that had not answered yet.
func TestCloseBlamesNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, met := range []bool{false, true} {
			var events recorder
			locker, fakes := newLocker(t, 3, events.option())
			if met {
				warm(t, locker)
			}
			fakes[2].Change((*fakeNode).Hang)
			lock, err := locker.TryAcquire(t.Context(), "k")
			must(t, err, "TryAcquire beside a node that has not answered yet")
			mustRelease(t, lock)
			must(t, locker.Close(), "Close")
			if blamed := events.of(NodeDown); len(blamed) > 0 {
				t.Errorf("a node that is asked (it was up before: %t) when the Locker is closed is blamed for the Close: %v", met, blamed)
			}
		}
	})
}
