package integration

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/quorumlock/quorumlock/redlock"
)

// Five processes ask for a free key at the same moment. One of them gets it, and only then
// are the others told that it is held.
func TestFiveProcessesTryAtTheSameMoment(t *testing.T) {
	onEach(t, func(s *site) {
		var lockers []*redlock.Locker
		for range five {
			lockers = append(lockers, s.locker())
			s.warm(lockers[len(lockers)-1])
		}
		s.contest(lockers, 400, 0, func() {}, func() {})
	})
}

// Four processes ask for a key at the same moment, while one of the nodes has just stopped. The
// others are a quorum, and settle it among them: one of the four nearly always gets it. The node
// time-out is far above what they take.
func TestFourProcessesTryAtTheSameMomentBesideANodeThatHasJustStopped(t *testing.T) {
	onEach(t, func(s *site) {
		var lockers []*redlock.Locker
		for range 4 {
			lockers = append(lockers, s.locker(redlock.WithNodeTimeout(2*time.Second)))
		}
		s.contest(lockers, 40, 1, func() {
			for _, locker := range lockers {
				s.warm(locker) // the stopped node is back
			}
			s.pause(4)
		}, func() { s.resume(4) })
	})
}

// contest has all Lockers try for the key in each round, of which so many may leave it to nobody.
func (s *site) contest(lockers []*redlock.Locker, rounds, vain int, before, after func()) {
	s.Helper()
	if !s.kind.real {
		rounds /= 8
	}
	var took []time.Duration
	for round := range rounds {
		before()
		won, refused, since := tryAtOnce(s, lockers)
		took = append(took, since...)
		if vain -= 1 - min(1, len(won)); len(won) > 1 || vain < 0 {
			s.Fatalf("round %d: %d of %d got the key, want one; the others: %v", round+1, len(won), len(lockers), refused)
		}
		for _, err := range refused {
			if taken := errors.Is(err, redlock.ErrTaken); taken != (len(won) == 1) {
				s.Errorf("round %d: beside %d who got the key: %v", round+1, len(won), err)
			}
		}
		for _, lock := range won {
			s.release(lock)
		}
		after()
		s.eventuallyFree()
	}
	slices.Sort(took)
	s.Logf("%d rounds: somebody had the key after %v, 9 of 10 times after %v, at most after %v", rounds, took[len(took)/2], took[len(took)*9/10], took[len(took)-1])
}

// tryAtOnce has all Lockers try for the site's key at one moment. It returns the locks that were
// had, and after how long each, and why the others were not.
func tryAtOnce(s *site, lockers []*redlock.Locker) (won []*redlock.Lock, refused []error, took []time.Duration) {
	var mu sync.Mutex
	var tries sync.WaitGroup
	start := make(chan struct{})
	var began time.Time
	for _, locker := range lockers {
		tries.Go(func() {
			<-start
			lock, err := locker.TryAcquire(s.Context(), s.key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = append(refused, err)
				return
			}
			took = append(took, time.Since(began)) //nolint:forbidigo // it is logged, and not judged
			won = append(won, lock)
		})
	}
	began = time.Now()
	close(start)
	tries.Wait()
	return won, refused, took
}

// TestBesideRedsync has redsync's users and ours contend for one key on the same
// nodes: never do two hold it at once.
func TestBesideRedsync(t *testing.T) {
	onEach(t, func(s *site) {
		var pools []redis.Pool
		for _, look := range s.looks {
			pools = append(pools, goredis.NewPool(look))
		}
		theirs := redsync.New(pools...)
		var ours [3]*redlock.Locker
		for i := range ours {
			ours[i] = s.locker(redlock.WithBackoff(time.Millisecond, 10*time.Millisecond))
		}
		s.contend(2*len(ours), 10, func(caller, _ int) (holding, []string, error) {
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
