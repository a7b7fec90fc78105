package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/redlock"
)

// accept sets numbers in the set in which nodes have the counter of a key, as clients of other clocks would.
func (s *site) accept(nodes []int, key string, members ...redis.Z) {
	s.Helper()
	for _, i := range nodes {
		s.must(s.looks[i].ZAdd(s.Context(), protocol.FenceSet(key).(string), members...).Err())
	}
}

// A fence is above each number that a quorum has accepted, and above its floor, below which it may have forgotten
// numbers. Counters of idle keys go.
func TestFences(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.locker(redlock.WithFences()), s.locker(redlock.WithFences())
		ahead := time.Now().Add(time.Hour).UnixMicro()
		s.accept([]int{1, 2, 3}, s.key, redis.Z{Score: float64(ahead), Member: s.key})
		lock := s.acquire(ours)
		fence := lock.Fence()
		if fence <= ahead {
			s.Errorf("the fence is %d where a quorum has accepted %d, want a greater one", fence, ahead)
		}
		if err := lock.Extend(s.Context(), 20*time.Second); err != nil || lock.Fence() != fence {
			s.Errorf("Extend = %v, and the fence is %d; want none and %d still", err, lock.Fence(), fence)
		}
		s.release(lock)
		next, err := theirs.Acquire(s.Context(), s.key, redlock.WithMaxWait(patience))
		s.must(err)
		if next.Fence() <= fence {
			s.Errorf("the next holder's fence is %d after %d, want a greater one", next.Fence(), fence)
		}
		s.release(next)

		floor, above := time.Now().Add(72*time.Hour).UnixMicro(), s.key+" with a floor"
		s.accept([]int{0, 1, 2}, above, redis.Z{Score: float64(floor), Member: ""})
		lock, err = ours.TryAcquire(s.Context(), above)
		s.must(err)
		if lock.Fence() <= floor {
			s.Errorf("the fence is %d where a quorum may have forgotten %d, want a greater one", lock.Fence(), floor)
		}
		s.release(lock)

		idle := "{" + s.key + " of idle keys}"
		var members []redis.Z // they were used an hour ago
		for n := range 300 {
			members = append(members, redis.Z{Score: float64(time.Now().Add(-time.Hour).UnixMicro() + int64(n)), Member: fmt.Sprint(idle, n)})
		}
		s.accept(all, idle, members...)
		s.eventually("no node has many counters of idle keys", func() bool {
			lock, err := ours.Acquire(s.Context(), idle+"another")
			s.must(err)
			s.release(lock)
			for i := range five {
				if n, err := s.looks[i].ZCard(s.Context(), protocol.FenceSet(idle).(string)).Result(); err != nil || n > 128 {
					return false
				}
			}
			return true
		})
	})
}
