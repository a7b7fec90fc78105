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
		s.release(s.acquire(locker)) // over connections that then fall silent
		s.pause(0, 1, 2)
		watch := patient.Start()
		_, err := locker.TryAcquire(s.Context(), s.key)
		if took := watch.Took(); !errors.Is(err, redlock.ErrNoQuorum) || took > 4*time.Second {
			s.Errorf("TryAcquire with three of five paused: %v after %v, want ErrNoQuorum after %v", err, took, brief)
		}
	})
}
