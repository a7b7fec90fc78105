package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/inspect"
	"github.com/quorumlock/quorumlock/redlock"
)

// counter is the fence that node i has accepted for the site's key.
func (s *site) counter(i int) int64 { return s.score(i, s.key) }

// score is that of a member of the set in which node i has the counter of the site's key.
func (s *site) score(i int, member string) int64 {
	s.Helper()
	score, err := s.looks[i].ZScore(context.Background(), inspect.FenceSet(s.key), member).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns the sentinel itself
		s.Fatalf("looking at node %d: %v", i+1, err)
	}
	return int64(score)
}

// wait takes the site's key once it is free: nodes that were harmed may still have the
// last holder's.
func (s *site) wait(locker *redlock.Locker) *redlock.Lock {
	s.Helper()
	lock, err := locker.Acquire(s.Context(), s.key, redlock.WithMaxWait(patience))
	s.must(err)
	return lock
}

// The counter of a quorum is set ahead, as by a client whose clock is an hour fast.
func TestAFenceThatIsTooSmallIsRaised(t *testing.T) {
	onEach(t, func(s *site) {
		ahead := time.Now().Add(time.Hour).UnixMicro()
		for i := 1; i < 4; i++ {
			member := redis.Z{Score: float64(ahead), Member: s.key}
			s.must(s.looks[i].ZAdd(context.Background(), inspect.FenceSet(s.key), member).Err())
		}
		lock := s.acquire(s.locker(redlock.WithFences()))
		if lock.Fence() <= ahead {
			s.Errorf("the fence is %d where a quorum has accepted %d, want a greater one", lock.Fence(), ahead)
		}
		fence := lock.Fence()
		if err := lock.Extend(s.Context(), 20*time.Second); err != nil || lock.Fence() != fence {
			s.Errorf("Extend = %v, and the fence is %d; want none and %d still", err, lock.Fence(), fence)
		}
		s.release(lock)
		next := s.acquire(s.locker(redlock.WithFences()))
		if next.Fence() <= fence {
			s.Errorf("the next holder's fence is %d after %d, want a greater one", next.Fence(), fence)
		}
		s.release(next)
	})
}

func TestFencesGrowWhileAMinorityIsDead(t *testing.T) {
	onEach(t, func(s *site) {
		one, two := s.locker(redlock.WithFences(), redlock.WithNodeTimeout(brief)), s.locker(redlock.WithFences(), redlock.WithNodeTimeout(brief))
		first := s.acquire(one)
		s.eventually("all nodes have the fence", func() bool {
			for i := range five {
				if s.counter(i) != first.Fence() {
					return false
				}
			}
			return true
		})
		s.release(first)
		s.pause(0, 3)
		second := s.wait(two)
		if second.Fence() <= first.Fence() {
			s.Errorf("with two nodes paused the fence is %d after %d, want a greater one", second.Fence(), first.Fence())
		}
		s.release(second)
		s.resume(0, 3)
		s.pause(1, 4)
		third := s.wait(one)
		if third.Fence() <= second.Fence() {
			s.Errorf("with two others paused the fence is %d after %d, want a greater one", third.Fence(), second.Fence())
		}
		s.release(third)
		s.resume(1, 4)
	})
}

// Counters that never expire were 25 of a service's 75 million keys.
func TestPitfall22IdleCountersAreForgotten(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker(redlock.WithFences())
		first := s.acquire(locker)
		s.release(first)
		old := time.Now().Add(-time.Hour)
		for i := range five { // as if it, and others, had been used an hour ago
			members := []redis.Z{{Score: float64(old.UnixMicro()), Member: s.key}}
			for n := range 300 {
				members = append(members, redis.Z{Score: float64(old.UnixMicro() + int64(n)), Member: fmt.Sprintf("{%s}:%d", s.key, n)})
			}
			s.must(s.looks[i].ZAdd(context.Background(), inspect.FenceSet(s.key), members...).Err())
		}
		s.eventually("no node has the counter, nor many others", func() bool {
			lock, err := locker.Acquire(s.Context(), "{"+s.key+"}:another")
			s.must(err)
			s.release(lock)
			for i := range five {
				if n, err := s.looks[i].ZCard(context.Background(), inspect.FenceSet(s.key)).Result(); err != nil || n > 128 || s.counter(i) != 0 {
					return false
				}
			}
			return true
		})
		for i := range five {
			if floor := s.score(i, ""); floor < old.UnixMicro() || floor > time.Now().Add(-time.Minute).UnixMicro() {
				s.Errorf("node %d has the floor %d, want one that is above %d, and a minute old at least", i+1, floor, old.UnixMicro())
			}
		}
		second := s.acquire(locker)
		if second.Fence() <= first.Fence() {
			s.Errorf("after the counters were forgotten the fence is %d, want more than %d", second.Fence(), first.Fence())
		}
		s.release(second)
	})
}

// Numbers that were forgotten may have been as great as the floor.
func TestAFenceIsAboveTheFloor(t *testing.T) {
	onEach(t, func(s *site) {
		ahead := time.Now().Add(72 * time.Hour).UnixMicro()
		for i := range five/2 + 1 {
			s.must(s.looks[i].ZAdd(context.Background(), inspect.FenceSet(s.key), redis.Z{Score: float64(ahead), Member: ""}).Err())
		}
		lock := s.acquire(s.locker(redlock.WithFences()))
		if lock.Fence() <= ahead {
			s.Errorf("the fence is %d where a quorum may have forgotten %d, want a greater one", lock.Fence(), ahead)
		}
		s.release(lock)
	})
}
