package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// The caller's deadline passes in the middle of an acquire. The clean-up must not hang
// on that context: what the good nodes have set goes away at once, and not by its TTL.
func TestPitfall01CleanupOutlivesTheCaller(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker(redlock.WithTTL(5 * time.Minute))
		s.warm(locker)
		s.pause(0, 1, 2)
		ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := locker.Acquire(ctx, s.key); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Acquire with three of five paused: %v, want the context's error", err)
		}
		s.eventuallyFree() // at the two that answer
		s.resume(0, 1, 2)
		s.eventuallyFree()
	})
}

// One silent node must not hold up what the others have decided.
func TestPitfall02SilentMinorityHoldsUpNothing(t *testing.T) {
	onEach(t, func(s *site) {
		const timeout = 30 * time.Second
		locker := s.locker(redlock.WithTTL(5*time.Minute), redlock.WithNodeTimeout(timeout))
		s.warm(locker)
		lock := s.acquire(locker)
		s.pause(1, 3)
		for _, step := range []struct {
			name string
			do   func() error
		}{
			{"Extend", func() error { return lock.Extend(s.Context(), 10*time.Minute) }},
			{"Held", func() error { _, err := lock.Held(s.Context()); return err }},
			{"Release", func() error { return lock.Release(s.Context()) }},
			{"TryAcquire", func() error { _, err := locker.TryAcquire(s.Context(), s.key+" other"); return err }},
		} {
			began := time.Now()
			err := step.do()
			if took := time.Since(began); err != nil || took > timeout/4 {
				s.Errorf("%s with two of five paused: %v after %v, want success long before the node time-out of %v", step.name, err, took, timeout)
			}
		}
	})
}

// The node time-out holds whatever time-outs the client has: go-redis waits for 5s by
// default, and redigo for ever.
func TestPitfall03NodeTimeoutHolds(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker(redlock.WithNodeTimeout(brief))
		s.warm(locker)
		s.pause(0, 1, 2)
		began := time.Now()
		_, err := locker.TryAcquire(s.Context(), s.key)
		if took := time.Since(began); !errors.Is(err, redlock.ErrNoQuorum) || took < brief/2 || took > 4*time.Second {
			s.Errorf("TryAcquire with three of five paused: %v after %v, want ErrNoQuorum after %v", err, took, brief)
		}
		// From now on the nodes are known to be silent, and nobody waits for long.
		began = time.Now()
		_, err = locker.TryAcquire(s.Context(), s.key)
		if took := time.Since(began); !errors.Is(err, redlock.ErrNoQuorum) || took > 4*time.Second {
			s.Errorf("a second TryAcquire: %v after %v, want ErrNoQuorum within %v", err, took, brief)
		}
	})
}

// A server that was stopped runs what lies in its buffers when it goes on, with a fresh
// TTL, and connections in any order: the acquire may run after its release.
func TestPitfallStoppedServerRunsAcquireAfterItsRelease(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker(redlock.WithTTL(5*time.Minute), redlock.WithNodeTimeout(brief))
		s.warm(locker)
		sets := s.sets(0)
		s.pause(0)
		lock := s.acquire(locker)
		s.eventually("the locker has given the paused node up", func() bool { // what had not left would not be sent
			return lock.Votes()[0].Answer == redlock.Failed
		})
		if err := lock.Release(s.Context()); err != nil {
			s.Errorf("Release with one of five paused: %v", err)
		}
		s.resume(0)
		if s.kind.real && s.sets(0) == sets {
			s.Error("the node that went on has not run the acquire: the test proves nothing")
		}
		s.eventuallyFree()
	})
}

// A late release of ours must not delete the key of who came next.
func TestPitfall20LateReleaseSparesTheNext(t *testing.T) {
	onEach(t, func(s *site) {
		ours := s.locker(redlock.WithTTL(5*time.Minute), redlock.WithNodeTimeout(brief))
		theirs := s.locker(redlock.WithTTL(5*time.Minute), redlock.WithNodeTimeout(brief))
		s.warm(ours)
		s.warm(theirs)
		lock := s.acquire(ours)
		s.eventuallyHolds(lock.Token(), all...)
		s.pause(0)
		if err := lock.Release(s.Context()); err != nil {
			s.Errorf("Release with one of five paused: %v", err)
		}
		s.eventuallyFree() // a quorum was enough for the release
		next := s.acquire(theirs)
		s.eventuallyHolds(next.Token(), 1, 2, 3, 4)
		s.resume(0)
		s.eventually("the late release takes our key away", func() bool { return s.holder(0) != lock.Token() })
		s.eventuallyHolds(next.Token(), 1, 2, 3, 4)
		if held, err := next.Held(s.Context()); !held || err != nil {
			s.Errorf("the next: Held = %v, %v, want true", held, err)
		}
	})
}
