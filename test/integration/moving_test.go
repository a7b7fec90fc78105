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

// A held is a lock of any kind.
type held interface {
	Extend(ctx context.Context, ttl time.Duration) error
	Confirm(ctx context.Context) (bool, error)
	Release() error
}

// movingKinds are the ways to hold keys of the slot of "{moving}", and the keys without which a lock is
// none.
var movingKinds = []struct {
	name    string
	options []redlock.Option
	take    func(t *testing.T, l *redlock.Locker) held
	keys    []string
	waits   bool // another process stands in line
}{
	{"alone", nil, takeAlone, []string{"{moving}"}, false},
	{"alone with fences", []redlock.Option{redlock.WithFences()}, takeAlone, []string{"{moving}"}, false},
	{"fair", []redlock.Option{redlock.WithFairness()}, takeAlone, []string{"{moving}"}, false},
	{"fair, and somebody waits", []redlock.Option{redlock.WithFairness(), redlock.WithFences()}, takeAlone, []string{"{moving}"}, true},
	{"fair, in turn", []redlock.Option{redlock.WithFairness()}, func(t *testing.T, l *redlock.Locker) held { // whose release calls the next
		t.Helper()
		first := takeAlone(t, l)
		next := make(chan held, 1)
		go func() {
			lock, err := l.Acquire(t.Context(), "{moving}", redlock.WithTTL(long))
			if err != nil {
				t.Errorf("Acquire = %v", err)
			}
			next <- lock
		}()
		patient.Until(t, "another waits", func() bool { return l.Stats().Waiting > 0 })
		must(t, first.Release())
		return <-next
	}, []string{"{moving}"}, false},
	{"shared", nil, takeShared, []string{"{moving}", "ql:readers={moving}"}, false},
	{"shared with fences, and somebody waits", []redlock.Option{redlock.WithFences()}, takeShared, []string{"{moving}", "ql:readers={moving}"}, true},
	{"a writer that became a reader", nil, func(t *testing.T, l *redlock.Locker) held {
		t.Helper()
		lock, err := l.Acquire(t.Context(), "{moving}", redlock.WithTTL(long))
		must(t, err)
		reader, err := lock.Downgrade(t.Context())
		must(t, err)
		return reader
	}, []string{"{moving}", "ql:readers={moving}"}, false},
	{"a reader that became a writer", nil, func(t *testing.T, l *redlock.Locker) held {
		t.Helper()
		reader, err := l.AcquireShared(t.Context(), "{moving}", redlock.WithTTL(long))
		must(t, err)
		lock, err := upgrade(t.Context(), reader)
		must(t, err)
		return lock
	}, []string{"{moving}"}, false},
	{"several keys", []redlock.Option{redlock.WithFences()}, func(t *testing.T, l *redlock.Locker) held {
		t.Helper()
		lock, err := l.AcquireAll(t.Context(), []string{"{moving}", "{moving}:2"}, redlock.WithTTL(long))
		must(t, err)
		return lock
	}, []string{"{moving}", "{moving}:2"}, false},
	{"a permit", nil, takePermits(1), []string{"ql:slot={moving}:0"}, false},
	{"a permit with fences, and somebody waits", []redlock.Option{redlock.WithFences()}, takePermits(1), []string{"ql:slot={moving}:0"}, true},
	{"several permits", nil, takePermits(2), []string{"ql:slot={moving}:0", "ql:slot={moving}:1"}, false},
}

func takeAlone(t *testing.T, l *redlock.Locker) held {
	t.Helper()
	lock, err := l.Acquire(t.Context(), "{moving}", redlock.WithTTL(long))
	must(t, err)
	return lock
}

func takeShared(t *testing.T, l *redlock.Locker) held {
	t.Helper()
	lock, err := l.AcquireShared(t.Context(), "{moving}", redlock.WithTTL(long))
	must(t, err)
	return lock
}

// takePermits takes so many of as many permits.
func takePermits(n int) func(*testing.T, *redlock.Locker) held {
	return func(t *testing.T, l *redlock.Locker) held {
		t.Helper()
		pool, err := l.Semaphore("{moving}", n)
		must(t, err)
		lock, err := pool.AcquireN(t.Context(), n, redlock.WithTTL(long))
		must(t, err)
		return lock
	}
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
				ours, theirs := newLocker(t, nodes, kind.options...), newLocker(t, nodes, kind.options...)
				lock := kind.take(t, ours)
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
