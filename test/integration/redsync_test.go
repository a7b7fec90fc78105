package integration

import (
	"context"
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
	onEach(t, func(s *site) {
		const each = 10 // holds of each contender
		var (
			inside, redsyncs, ours atomic.Int32
			contenders             sync.WaitGroup
		)
		hold := func(whose *atomic.Int32) {
			if others := inside.Add(1) - 1; others > 0 {
				s.Errorf("%d others hold the key at the same time", others)
			}
			time.Sleep(2 * time.Millisecond) // the work: time for others to break in
			inside.Add(-1)
			whose.Add(1)
		}

		var pools []redis.Pool
		for _, look := range s.looks {
			pools = append(pools, goredis.NewPool(look))
		}
		sync := redsync.New(pools...)
		for range 3 {
			contenders.Go(func() {
				mutex := sync.NewMutex(s.key, redsync.WithTries(10_000), redsync.WithExpiry(10*time.Second),
					redsync.WithRetryDelayFunc(func(int) time.Duration { return 5 * time.Millisecond }))
				for range each {
					if err := mutex.LockContext(s.Context()); err != nil {
						s.Errorf("redsync: %v", err)
						return
					}
					hold(&redsyncs)
					if _, err := mutex.UnlockContext(s.Context()); err != nil {
						s.Errorf("redsync: %v", err)
					}
				}
			})
		}
		for range 3 {
			locker := s.locker(redlock.WithBackoff(time.Millisecond, 10*time.Millisecond))
			contenders.Go(func() {
				for range each {
					lock, err := locker.Acquire(s.Context(), s.key, redlock.WithMaxWait(patience))
					if err != nil {
						s.Errorf("ours: %v", err)
						return
					}
					hold(&ours)
					if err := lock.Release(context.WithoutCancel(s.Context())); err != nil {
						s.Errorf("ours: %v", err)
					}
				}
			})
		}
		contenders.Wait()
		if redsyncs.Load() != 3*each || ours.Load() != 3*each {
			s.Errorf("redsync held the key %d times and we %d times, want %d each", redsyncs.Load(), ours.Load(), 3*each)
		}
		s.eventuallyFree()
	})
}
