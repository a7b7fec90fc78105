package integration

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/integration/shards"
	"github.com/quorumlock/quorumlock/test/patient"
)

// movingKinds are the ways to hold keys of the slot of "{moving}", and the keys without which a lock is
// none.
var movingKinds = []struct {
	name    string
	options []redlock.Option
	take    taker
	keys    []string
	waits   bool // another process stands in line
}{
	{"alone", nil, alone, []string{"{moving}"}, false},
	{"alone with fences", []redlock.Option{redlock.WithFences()}, alone, []string{"{moving}"}, false},
	{"fair", []redlock.Option{redlock.WithFairness()}, alone, []string{"{moving}"}, false},
	{"fair, and somebody waits", []redlock.Option{redlock.WithFairness(), redlock.WithFences()}, alone, []string{"{moving}"}, true},
	{"fair, in turn", []redlock.Option{redlock.WithFairness()}, func(t *testing.T, l *redlock.Locker, key string) (next lasting, err error) { // whose release calls the next
		first, err := alone(t, l, key)
		must(t, err)
		had := make(chan struct{})
		go func() {
			defer close(had)
			next, err = alone(t, l, key)
		}()
		patient.Until(t, "another waits", func() bool { return l.Stats().Waiting > 0 })
		must(t, first.Release())
		<-had
		return next, err
	}, []string{"{moving}"}, false},
	{"shared", nil, reads, []string{"{moving}", "ql:readers={moving}"}, false},
	{"shared with fences, and somebody waits", []redlock.Option{redlock.WithFences()}, reads, []string{"{moving}", "ql:readers={moving}"}, true},
	{"a writer that became a reader", nil, downgraded, []string{"{moving}", "ql:readers={moving}"}, false},
	{"a reader that became a writer", nil, upgraded, []string{"{moving}"}, false},
	{"several keys", []redlock.Option{redlock.WithFences()}, several, []string{"{moving}", "{moving}:2"}, false},
	{"a permit", nil, permit(1, 1), []string{"ql:slot={moving}:0"}, false},
	{"a permit with fences, and somebody waits", []redlock.Option{redlock.WithFences()}, permit(1, 1), []string{"ql:slot={moving}:0"}, true},
	{"several permits", nil, permit(2, 2), []string{"ql:slot={moving}:0", "ql:slot={moving}:1"}, false},
}

// A key that is there keeps its vote while its slot moves: the lock is extended, kept from others and
// released, of every kind, whether or not what else the nodes keep beside it was there or has gone.
func TestALockIsKeptExtendedAndReleasedWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for i, kind := range movingKinds {
		for j, apart := range []bool{false, true} {
			name := kind.name
			if apart {
				name += ", and the rest of its slot has gone"
			}
			c := clusterClients[(i+j)%len(clusterClients)]
			t.Run(strings.ReplaceAll(c.name+"/"+name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				cluster, err := shards.Start(2, false) // the only node: what it says decides
				must(t, err)
				t.Cleanup(func() { must(t, cluster.Close()) })
				nodes := c.nodes(t, []*shards.Cluster{cluster})
				ours, theirs := newLocker(t, nodes, append(kind.options, redlock.WithTTL(long))...), newLocker(t, nodes, kind.options...)
				lock, err := kind.take(t, ours, "{moving}")
				must(t, err)
				if kind.waits {
					waits(t, theirs, kind.keys, cluster)
				}
				move, err := cluster.Open("{moving}")
				must(t, err)
				if apart {
					must(t, move.Keys(kind.keys...))
				}
				left, err := move.Left()
				must(t, err)
				if missing := slices.DeleteFunc(slices.Clone(kind.keys), func(key string) bool { return slices.Contains(left, key) }); len(missing) > 0 {
					t.Fatalf("the lock has the keys %q, of which %q are not in its slot", kind.keys, missing)
				}
				for range 2 {
					must(t, lock.Extend(t.Context(), 2*long))
					if confirmed, err := lock.Confirm(t.Context()); !confirmed || err != nil {
						t.Fatalf("Confirm = %v, %v", confirmed, err)
					}
					if other, err := theirs.TryAcquire(t.Context(), "{moving}"); err == nil && strings.HasPrefix(kind.keys[0], "{") {
						t.Fatalf("a second holder: %v", other)
					}
				}
				must(t, lock.Release())
				left, err = move.Left()
				must(t, err)
				for _, key := range kind.keys {
					if slices.Contains(left, key) {
						t.Errorf("behind the release the node has %q", key)
					}
				}
			})
		}
	}
}

// waits lets another process wait until it stands in the line of the lock.
func waits(t *testing.T, l *redlock.Locker, keys []string, cluster *shards.Cluster) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	t.Cleanup(func() { cancel(); <-over })
	line := "ql:line={moving}"
	wait := func() error { return failed(l.Acquire(ctx, "{moving}")) }
	if strings.HasPrefix(keys[0], "ql:slot") {
		line = "ql:pool={moving}"
		wait = func() error {
			pool, err := l.Semaphore("{moving}", len(keys))
			if err == nil {
				_, err = pool.Acquire(ctx)
			}
			return err
		}
	}
	go func() {
		defer close(over)
		_ = wait() // it may get the key behind the release, or nothing while the slot moves
	}()
	patient.Until(t, "somebody stands in "+line, func() bool {
		return slices.ContainsFunc(cluster.Masters, func(p *server.Process) bool {
			count, err := p.Do("ZCARD", line)
			return err == nil && count != "0"
		})
	})
}

// Of several keys those that have not moved are released at once, and the others where they are then.
func TestEachOfSeveralKeysIsReleasedWhereItIs(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for _, c := range clusterClients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster, err := shards.Start(2, false)
			must(t, err)
			t.Cleanup(func() { must(t, cluster.Close()) })
			locker := newLocker(t, c.nodes(t, []*shards.Cluster{cluster}))
			lock, err := locker.AcquireAll(t.Context(), []string{"{moving}", "{moving}:2"}, redlock.WithTTL(time.Hour))
			must(t, err)
			move, err := cluster.Open("{moving}")
			must(t, err)
			must(t, move.Keys("{moving}"))
			_ = lock.Release() // the node does not say that it has deleted all
			if left, err := move.Left(); err != nil || len(left) > 0 {
				t.Errorf("behind the release the node has %q (%v)", left, err)
			}
			must(t, move.End())
			patient.Until(t, "what has moved is released", func() bool {
				at, _, err := cluster.Home("{moving}")
				if err != nil {
					return false
				}
				value, err := cluster.Masters[at].Do("GET", "{moving}:2")
				return err == nil && value == ""
			})
		})
	}
}
