package integration

import (
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/quorumlock/quorumlock/redlock"
)

// TestBesideRedsync has redsync's users and ours contend for one key on the same
// nodes: never do two hold it at once.
func TestBesideRedsync(t *testing.T) {
	onEachOnce(t, func(s *site) {
		var pools []redis.Pool
		for _, look := range s.looks {
			pools = append(pools, goredis.NewPool(look))
		}
		theirs := redsync.New(pools...)
		var ours [3]*redlock.Locker
		for i := range ours {
			ours[i] = s.locker(redlock.WithBackoff(time.Millisecond, 10*time.Millisecond))
		}
		s.contend(2*len(ours), 4, func(caller, _ int) (holding, []string, error) {
			if caller < len(ours) {
				lock, err := ours[caller].Acquire(s.Context(), s.key, redlock.WithMaxWait(patience))
				return lock, []string{s.key}, err
			}
			mutex := theirs.NewMutex(s.key, redsync.WithTries(10_000), redsync.WithExpiry(10*time.Second),
				redsync.WithRetryDelayFunc(func(int) time.Duration { return 5 * time.Millisecond }))
			return redsyncs{mutex}, []string{s.key}, mutex.LockContext(s.Context())
		})
		s.eventuallyFree()
	})
}

// A mutex of redsync's has no fence.
type redsyncs struct{ *redsync.Mutex }

func (redsyncs) Fence() int64 { return 0 }

func (m redsyncs) Release() error {
	_, err := m.Unlock()
	return err
}
