package integration

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	rueidislib "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/shards"
	"github.com/quorumlock/quorumlock/test/patient"
)

// A clusterClient is a library that can have a Redis Cluster for a node.
type clusterClient struct {
	name  string
	nodes func(t *testing.T, clusters []*shards.Cluster) []driver.Node
}

var clusterClients = []clusterClient{
	{"goredis", func(t *testing.T, clusters []*shards.Cluster) []driver.Node {
		t.Helper()
		return overClients(t, clusters, goredis.Nodes, func(to *shards.Cluster) (redis.UniversalClient, func(), error) {
			c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: to.Addrs()})
			return c, func() { _ = c.Close() }, nil
		})
	}},
	{"rueidis", func(t *testing.T, clusters []*shards.Cluster) []driver.Node {
		t.Helper()
		return overClients(t, clusters, rueidis.Nodes, func(to *shards.Cluster) (rueidislib.Client, func(), error) {
			c, err := rueidislib.NewClient(rueidislib.ClientOption{InitAddress: to.Addrs(), DisableCache: true})
			if err != nil {
				return nil, nil, err
			}
			return c, c.Close, nil
		})
	}},
}

// onClusters runs the test with each client over three clusters of three masters.
func onClusters(t *testing.T, replica bool, test func(t *testing.T, clusters []*shards.Cluster, locker func(...redlock.Option) *redlock.Locker)) {
	t.Helper()
	needProcesses(t)
	for _, c := range clusterClients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clusters := make([]*shards.Cluster, 3)
			var group sync.WaitGroup
			for i := range clusters {
				group.Go(func() {
					var err error
					if clusters[i], err = shards.Start(3, replica && i == 0); err != nil {
						t.Errorf("no cluster: %v", err)
					}
				})
			}
			group.Wait()
			for _, c := range clusters {
				if c == nil {
					t.FailNow()
				}
				t.Cleanup(func() { must(t, c.Close()) })
			}
			test(t, clusters, func(options ...redlock.Option) *redlock.Locker {
				t.Helper()
				return newRenewing(t, c.nodes(t, clusters), options...)
			})
		})
	}
}

// What works where every node is a Redis Cluster, and what is refused, as docs/safety.md says.
func TestEachNodeIsARedisCluster(t *testing.T) {
	t.Parallel()
	onClusters(t, false, func(t *testing.T, _ []*shards.Cluster, open func(...redlock.Option) *redlock.Locker) {
		ours, theirs := open(redlock.WithFences()), open(redlock.WithFences())
		var last int64
		for i := range 20 { // on all shards
			key := fmt.Sprint("orders:", i%7)
			lock, err := ours.Acquire(t.Context(), key)
			must(t, err)
			if _, err := theirs.TryAcquire(t.Context(), key); !errors.Is(err, redlock.ErrTaken) {
				t.Errorf("a second holder of %s: %v, want ErrTaken", key, err)
			}
			must(t, lock.Extend(t.Context(), time.Minute))
			if lock.Fence() <= last {
				t.Errorf("fence %d follows %d", lock.Fence(), last)
			}
			last = lock.Fence()
			must(t, lock.Release())
		}

		for _, kind := range lackKinds {
			if !slices.Contains([]string{"plain", "fair", "readers", "writers", "permits", "fences"}, kind.name) {
				continue
			}
			t.Run(kind.name, func(t *testing.T) { // who waits is woken, or is seen to wait for too long
				options := append([]redlock.Option{redlock.WithTTL(long), redlock.WithBackoff(long, long), redlock.WithMaxWait(patience)}, kind.options...)
				must(t, live(t, open(options...), open(options...), kind.one, kind.next, true))
			})
		}
		t.Run("several keys of one tag", func(t *testing.T) {
			both, err := ours.AcquireAll(t.Context(), []string{"{bank}:3", "{bank}:7"})
			must(t, err)
			must(t, both.Release())
			if _, err := ours.TryAcquireAll(t.Context(), []string{"a", "b"}); !errors.Is(err, redlock.ErrNode) || !mentions(err, "hash tag") {
				t.Errorf("keys of several shards: %v, want ErrNode that names the hash tag", err)
			}
		})
		t.Run("guards and durable votes are refused", func(t *testing.T) {
			for name, options := range map[string][]redlock.Option{
				"WithRestartGuard":         {redlock.WithRestartGuard(time.Minute)},
				"votes at replicas":        {redlock.WithDurability(redlock.Durability{Replicas: 1})},
				"votes on disks, as there": {redlock.WithDurability(redlock.Durability{Disk: true, Replicas: 1})},
			} {
				if _, err := open(options...).TryAcquire(t.Context(), "k"); !errors.Is(err, redlock.ErrNode) && !errors.Is(err, redlock.ErrOption) || !mentions(err, "luster") {
					t.Errorf("%s: %v, want a refusal that names the Cluster", name, err)
				}
			}
		})
	})
}

// A slot goes to another shard while its key is locked: the lock stays, and nobody else gets it.
func TestASlotMovesWhileItsKeyIsLocked(t *testing.T) {
	t.Parallel()
	onClusters(t, false, func(t *testing.T, clusters []*shards.Cluster, open func(...redlock.Option) *redlock.Locker) {
		ours, theirs := open(redlock.WithFences()), open(redlock.WithFences())
		lock, err := ours.Acquire(t.Context(), "moving", redlock.WithTTL(long))
		must(t, err)
		still := func(when string) {
			t.Helper()
			if next, err := theirs.TryAcquire(t.Context(), "moving"); err == nil {
				t.Fatalf("%s: a second holder, %v", when, next)
			}
			// A client that was told MOVED learns the new map within 200 ms.
			patient.Until(t, when+" Extend succeeds", func() bool { return lock.Extend(t.Context(), long) == nil })
			other, err := theirs.Acquire(t.Context(), "{moving}:other", redlock.WithMaxWait(patience)) // a key that is not there: ASK
			if err != nil {
				t.Errorf("%s: a key of the same slot: %v", when, err)
				return
			}
			if err := other.Release(); err != nil {
				t.Errorf("%s: its release: %v", when, err)
			}
		}
		for i, c := range clusters {
			move, err := c.Open("moving")
			must(t, err)
			still(fmt.Sprintf("node %d: the slot is on its way", i+1))
			must(t, move.Keys())
			still(fmt.Sprintf("node %d: the key has gone, its slot has not", i+1))
			must(t, move.End())
			still(fmt.Sprintf("node %d: the slot has gone", i+1))
		}
		still("all slots have gone")
		must(t, lock.Release())
		next, err := theirs.Acquire(t.Context(), "moving", redlock.WithMaxWait(patience))
		must(t, err)
		if next.Fence() <= lock.Fence() {
			t.Errorf("behind the moves the fence %d follows %d: the counter was lost", next.Fence(), lock.Fence())
		}
		must(t, next.Release())
	})
}

// Slots go to other shards, with a set of many counters, while their keys are taken by turns:
// fences grow, and the counters that were there are forgotten.
func TestASlotMovesUnderFencedLocks(t *testing.T) {
	t.Parallel()
	onClusters(t, false, func(t *testing.T, clusters []*shards.Cluster, open func(...redlock.Option) *redlock.Locker) {
		set := protocol.FenceSet("{moving}").(string)
		asked := func(c *shards.Cluster, words ...string) (answer string) {
			for _, p := range c.Masters {
				if text, err := p.Do(words...); err == nil { // or the set is on another shard
					answer = text
				}
			}
			return answer
		}
		old := time.Now().Add(-time.Hour).UnixMicro()
		for _, c := range clusters {
			words := []string{"ZADD", set}
			for i := range 5000 {
				words = append(words, fmt.Sprint(old+int64(i)), fmt.Sprint("{moving}:old:", i))
			}
			if answer := asked(c, words...); answer != "5000" {
				t.Fatalf("ZADD of 5000 counters says %q", answer)
			}
		}
		var last [3]atomic.Int64 // by key, of its holders
		var turns atomic.Int64
		done := make(chan struct{})
		var load sync.WaitGroup
		stop := sync.OnceFunc(func() { close(done); load.Wait() })
		defer stop()
		lockers := []*redlock.Locker{open(redlock.WithFences()), open(redlock.WithFences())}
		for i := range 6 {
			load.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					key := i % len(last)
					lock, err := lockers[i/len(last)].Acquire(t.Context(), fmt.Sprint("{moving}:", key), redlock.WithMaxWait(patience))
					if err != nil {
						t.Errorf("Acquire = %v", err)
						return
					}
					if before := last[key].Swap(lock.Fence()); before >= lock.Fence() {
						t.Errorf("the fence %d follows %d", lock.Fence(), before)
					}
					_ = lock.Release() // at a node whose slot moves it waits for its TTL
					turns.Add(1)
				}
			})
		}
		more := func() { // load goes on
			from := turns.Load()
			patient.Until(t, "20 more locks were had", func() bool { return turns.Load() >= from+20 })
		}
		for _, c := range clusters {
			move, err := c.Open("moving")
			must(t, err)
			more()
			must(t, move.Keys())
			more()
			must(t, move.End())
			more()
		}
		for i, c := range clusters {
			count := 5000
			for end := time.Now().Add(patience); count > 2000 && time.Now().Before(end); {
				more()
				left, err := strconv.Atoi(asked(c, "ZCARD", set))
				if err != nil {
					t.Fatalf("node %d says of its set: %v", i+1, err)
				}
				count = left
			}
			if count > 2000 {
				t.Errorf("behind the moves node %d has %d counters", i+1, count)
			}
		}
	})
}

// A shard's master dies and its replica takes over while locks are held.
func TestAShardFailsOverWhileLocksAreHeld(t *testing.T) {
	t.Parallel()
	onClusters(t, true, func(t *testing.T, clusters []*shards.Cluster, open func(...redlock.Option) *redlock.Locker) {
		ours, theirs := open(redlock.WithFences(), redlock.WithTTL(10*time.Second), redlock.WithNodeTimeout(generous)), open(redlock.WithFences(), redlock.WithNodeTimeout(generous))
		keys := map[string]*redlock.Lock{}
		for i := range 9 { // some on the shard that dies
			key := fmt.Sprint("held:", i)
			lock, err := ours.Acquire(t.Context(), key)
			must(t, err)
			keys[key] = lock
		}
		must(t, clusters[0].FailOver())
		for key, lock := range keys {
			if _, err := theirs.TryAcquire(t.Context(), key); err == nil {
				t.Fatalf("a second holder of %s", key)
			}
			if err := lock.Extend(t.Context(), 10*time.Second); err != nil {
				t.Errorf("behind the failover %s: Extend = %v", key, err)
			}
			must(t, lock.Release())
		}
		// The promoted one votes again.
		for key := range keys {
			patient.Until(t, "all nodes grant "+key+" behind the failover", func() bool {
				lock, err := ours.TryAcquire(t.Context(), key)
				must(t, err)
				granted := 0
				must(t, lock.Release())
				for _, v := range lock.Votes() {
					if v.Answer == "granted" {
						granted++
					}
				}
				return granted == len(clusters)
			})
		}
	})
}
