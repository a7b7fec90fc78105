package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// acquisitions is how many a run under faults makes; QUORUMLOCK_ACQUISITIONS says another
// number.
const acquisitions = 5_000

// faultLease is the lease of these locks, and the longest that the guard knows of.
const faultLease = time.Second

// A tenure is one lock that was had: asked for, had, and with which fence.
type tenure struct {
	asked, had time.Time
	fence      int64
}

// A contest is one key that many contend for.
type contest struct {
	key    string
	holder atomic.Pointer[redlock.Lock]

	mu      sync.Mutex
	tenures []tenure
}

// Three Lockers, one over each client, contend for a few keys while a minority of the nodes
// is killed and comes back empty, is stopped, loses its connections or its scripts. Nobody
// has a key while another has it, and fences grow from each lock to those that were asked
// for after it was had.
func TestFencesAndGuardUnderFaults(t *testing.T) {
	if kinds[1].missing != nil {
		return // the line that TestMain prints says so
	}
	goal := int64(acquisitions)
	if text := os.Getenv("QUORUMLOCK_ACQUISITIONS"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		must(t, err)
		goal = n
	}
	seed := uint64(time.Now().UnixNano())
	var nodes []*server.Process
	var addrs []string
	for range five {
		nodes = append(nodes, launch(t, server.Setup{}))
		addrs = append(addrs, nodes[len(nodes)-1].Addr())
	}
	contests := make([]*contest, 48)
	for i := range contests {
		contests[i] = &contest{key: fmt.Sprint("contest ", i)}
	}
	var (
		done    atomic.Int64
		waiting sync.WaitGroup
		stopped = make(chan struct{})
	)
	for i, c := range clients {
		locker, err := redlock.New(c.nodes(t, addrs), redlock.WithTTL(faultLease), redlock.WithNodeTimeout(faultLease/4),
			redlock.WithFences(), redlock.WithRestartGuard(faultLease))
		must(t, err)
		t.Cleanup(func() { _ = locker.Close() }) // what it was owed is on nodes that are gone
		if i == 0 {
			must(t, locker.Admit(t.Context()))
		}
		for worker := range 8 {
			random := rand.New(rand.NewPCG(seed, uint64(8*i+worker))) //nolint:gosec // a seed to repeat it by
			waiting.Go(func() {
				for done.Load() < goal {
					if contests[random.IntN(len(contests))].enter(t, locker, random) {
						done.Add(1)
					}
				}
			})
		}
	}
	faults := make(chan int)
	go func() { faults <- harmMinorities(t, nodes, rand.New(rand.NewPCG(seed, 0)), stopped) }() //nolint:gosec // the same
	waiting.Wait()
	close(stopped)
	harmed := <-faults
	total := 0
	for _, c := range contests {
		total += len(c.tenures)
		c.judge(t)
	}
	t.Logf("seed %d: %d acquisitions of %d keys through %d faults", seed, total, len(contests), harmed)
}

// enter takes the key, if it can be had soon, holds it for a moment and gives it back, or
// leaves it to its lease.
func (c *contest) enter(t *testing.T, locker *redlock.Locker, random *rand.Rand) bool {
	asked := time.Now()
	lock, err := locker.Acquire(t.Context(), c.key, redlock.WithMaxWait(20*time.Millisecond), redlock.WithMaxOutage(time.Minute))
	if err != nil {
		if !errors.Is(err, redlock.ErrHeld) && !errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrExpired) && !errors.Is(err, redlock.ErrFence) {
			t.Errorf("%s: %v", c.key, err)
		}
		return false
	}
	had := time.Now()
	if before := c.holder.Swap(lock); before != nil && lock.Valid() && before.Valid() {
		t.Errorf("%s has two holders: %v and %v, with the fences %d and %d", c.key, before, lock, before.Fence(), lock.Fence())
	}
	c.mu.Lock()
	c.tenures = append(c.tenures, tenure{asked, had, lock.Fence()})
	c.mu.Unlock()
	if random.IntN(20) == 0 {
		_ = lock.Extend(t.Context(), faultLease) // it may be lost by then
	}
	if random.IntN(200) == 0 {
		return true // a holder that crashed
	}
	c.holder.CompareAndSwap(lock, nil)
	_ = lock.Release(t.Context()) // so may this
	return true
}

// judge looks at the order of the fences.
func (c *contest) judge(t *testing.T) {
	t.Helper()
	byEnd := slices.Clone(c.tenures)
	slices.SortFunc(byEnd, func(a, b tenure) int { return a.had.Compare(b.had) })
	slices.SortFunc(c.tenures, func(a, b tenure) int { return a.asked.Compare(b.asked) })
	seen := map[int64]bool{}
	var greatest int64
	for _, now := range c.tenures {
		for len(byEnd) > 0 && byEnd[0].had.Before(now.asked) {
			greatest, byEnd = max(greatest, byEnd[0].fence), byEnd[1:]
		}
		if now.fence <= greatest {
			t.Errorf("%s: a lock that was asked for after the fence %d was had has the fence %d", c.key, greatest, now.fence)
		}
		if seen[now.fence] {
			t.Errorf("%s: two locks have the fence %d", c.key, now.fence)
		}
		seen[now.fence] = true
	}
}

// harmMinorities harms one or two nodes at a time until it is stopped, and returns how
// often it did. A node that came back empty counts as harmed until its quarantine is over.
func harmMinorities(t *testing.T, nodes []*server.Process, random *rand.Rand, stopped <-chan struct{}) (faults int) {
	rest := func(d time.Duration) bool {
		select {
		case <-stopped:
			return false
		case <-time.After(d):
			return true
		}
	}
	try := func(err error) {
		if err != nil {
			t.Errorf("a fault could not be made: %v", err)
		}
	}
	for {
		pair := random.Perm(len(nodes))[:2]
		for _, i := range pair {
			n := nodes[i]
			faults++
			switch random.IntN(4) {
			case 0:
				try(n.Kill())
				try(n.Start())
			case 1:
				try(n.Pause())
				rest(time.Duration(random.IntN(400)) * time.Millisecond)
				try(n.Continue())
			case 2:
				_, err := n.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				try(err)
			default:
				_, err := n.Do("SCRIPT", "FLUSH")
				try(err)
			}
		}
		if !rest(faultLease + faultLease/4) {
			return faults
		}
	}
}
