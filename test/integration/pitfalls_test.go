package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

// The node time-out holds whatever time-outs the client has: go-redis waits for 5s by
// default, and redigo for ever.
func TestPitfall03NodeTimeoutHolds(t *testing.T) {
	onEachOnce(t, func(s *site) {
		locker := s.locker(redlock.WithNodeTimeout(brief))
		s.warm(locker)
		s.pause(0, 1, 2)
		began, watch := time.Now(), patient.Start()
		_, err := locker.TryAcquire(s.Context(), s.key)
		passed := time.Since(began) //nolint:forbidigo // a slow machine only adds
		if took := watch.Took(); !errors.Is(err, redlock.ErrNoQuorum) || passed < brief/2 || took > 4*time.Second {
			s.Errorf("TryAcquire with three of five paused: %v after %v, want ErrNoQuorum after %v", err, passed, brief)
		}
		// From now on the nodes are known to be silent, and nobody waits for long.
		watch = patient.Start()
		_, err = locker.TryAcquire(s.Context(), s.key)
		if took := watch.Took(); !errors.Is(err, redlock.ErrNoQuorum) || took > 4*time.Second {
			s.Errorf("a second TryAcquire: %v after %v, want ErrNoQuorum within %v", err, took, brief)
		}
		s.resume(0, 1, 2)
		s.eventually("the nodes serve again", func() bool {
			lock, err := locker.TryAcquire(s.Context(), s.key)
			return err == nil && lock.Release() == nil
		})
		s.eventuallyFree()
	})
}

// A server that was stopped runs what lies in its buffers when it goes on, with a fresh
// TTL, and connections in any order: the acquire may run after its release.
func TestPitfallStoppedServerRunsAcquireAfterItsRelease(t *testing.T) {
	onEachOnce(t, func(s *site) {
		locker := s.locker(redlock.WithTTL(long), redlock.WithNodeTimeout(brief))
		s.warm(locker)
		sets := s.sets(0)
		s.pause(0)
		lock := s.acquire(locker)
		s.eventually("the locker has given the paused node up", func() bool { // what had not left would not be sent
			return lock.Votes()[0].Answer == "failed"
		})
		if err := lock.Release(); err != nil && !errors.Is(err, redlock.ErrNoQuorum) { // another node may be late, too
			s.Errorf("Release = %v", err)
		}
		s.resume(0)
		if s.kind.real && s.sets(0) == sets {
			s.Error("the node that went on has not run the acquire: the test proves nothing")
		}
		s.eventuallyFree()
	})
}
