package integration

import (
	"sync"
	"sync/atomic"
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
		var holders atomic.Int32
		var group sync.WaitGroup
		contend := func(take func() (release func() error, err error)) {
			group.Go(func() {
				for range 4 {
					release, err := take()
					if err != nil {
						s.Errorf("nobody got it: %v", err)
						return
					}
					if n := holders.Add(1); n > 1 {
						s.Errorf("%d hold the key at once", n)
					}
					time.Sleep(time.Millisecond) //nolint:forbidigo // the work: time for others to break in
					holders.Add(-1)
					s.check(release(), "Release")
				}
			})
		}
		for range 3 {
			ours := s.locker(redlock.WithBackoff(time.Millisecond, 10*time.Millisecond))
			contend(func() (func() error, error) {
				lock, err := ours.Acquire(s.Context(), s.key, redlock.WithMaxWait(patience))
				if err != nil {
					return nil, err
				}
				return lock.Release, nil
			})
			contend(func() (func() error, error) {
				mutex := theirs.NewMutex(s.key, redsync.WithTries(10_000), redsync.WithExpiry(10*time.Second),
					redsync.WithRetryDelayFunc(func(int) time.Duration { return 5 * time.Millisecond }))
				return func() error { _, err := mutex.Unlock(); return err }, mutex.LockContext(s.Context())
			})
		}
		group.Wait()
		s.eventuallyFree()
	})
}
