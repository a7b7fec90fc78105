package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

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
			if err != nil {
				t.Fatal(err)
			}
			return locker
		}
		one, two := made(nodes), made(nodes)
		part := made(nodes[:1]) // which has one of them
		closed := func(locker *Locker, want ...int32) {
			t.Helper()
			for range 2 { // only the first call counts
				if err := locker.Close(); err != nil {
					t.Fatalf("Close = %v", err)
				}
			}
			for i, n := range owners {
				if n.closed.Load() != want[i] {
					t.Errorf("the driver of %s was closed %d times, want %d", n.name, n.closed.Load(), want[i])
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
				t.Errorf("%s is remembered with %d users when all have closed", n.name, count)
			}
		}
	})
}

// Silence, or an outage that is waited out, would say nothing of what to do.
func TestALockerOnNodesThatWereClosedSaysSoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := ownerNodes(3)
		first, err := New(nodes)
		if err != nil {
			t.Fatal(err)
		}
		_ = first.Close()
		locker, err := New(nodes)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = locker.Close() }()
		start := time.Now()
		_, err = locker.Acquire(t.Context(), "k")
		if !errors.Is(err, driver.ErrClosed) || !strings.Contains(err.Error(), "make the nodes anew") {
			t.Errorf("Acquire on nodes that were closed = %v, want driver.ErrClosed with what to do", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("that took %v, want no waiting for what does not come back", took)
		}
	})
}
