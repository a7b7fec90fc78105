package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/redlock"
)

// setNX is how other libraries take a lock.
var setNX = redis.SetArgs{Mode: "NX", TTL: 10 * time.Second}

func TestNodesKilled(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker()
		early := s.acquire(locker)
		s.eventuallyHolds(early.Token(), all...)
		s.kill(0, 1)
		if err := early.Extend(s.Context(), time.Minute); err != nil {
			s.Errorf("Extend with two of five dead: %v", err)
		}
		if err := early.Release(s.Context()); err != nil {
			s.Errorf("Release with two of five dead: %v", err)
		}
		late := s.acquire(locker)
		s.kill(2)
		began := time.Now()
		_, err := locker.TryAcquire(s.Context(), s.key+" other")
		if took := time.Since(began); !errors.Is(err, redlock.ErrNoQuorum) || took > patience/4 {
			s.Errorf("three of five dead: TryAcquire = %v after %v, want ErrNoQuorum within the node time-out", err, took)
		}
		var quorum *redlock.QuorumError
		if !errors.As(err, &quorum) {
			s.Fatalf("the error is no QuorumError: %v", err)
		}
		for i := range 3 {
			if v := quorum.Votes[i]; v.Answer != redlock.Failed || v.Err == nil || !mentions(err, v.Node) {
				s.Errorf("dead node %d voted %v", i+1, v)
			}
		}
		if err := late.Extend(s.Context(), time.Minute); !errors.Is(err, redlock.ErrNoQuorum) {
			s.Errorf("Extend with three of five dead: %v, want ErrNoQuorum", err)
		}
		if !late.Valid() {
			s.Error("an extension that failed in time has ended the lock before its deadline")
		}
	})
}

func TestRestartedEmpty(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker()
		lock := s.acquire(locker)
		s.eventuallyHolds(lock.Token(), all...)
		s.kill(0, 1)
		s.start(0, 1)
		s.eventuallyHolds("", 0, 1)
		if held, err := lock.Held(s.Context()); !held || err != nil {
			s.Errorf("two of five came back empty: Held = %v, %v, want true", held, err)
		}
		s.eventually("extensions set the key again where it was lost", func() bool {
			if err := lock.Extend(s.Context(), time.Minute); err != nil {
				s.Fatalf("Extend: %v", err)
			}
			return s.holder(0) == lock.Token() && s.holder(1) == lock.Token()
		})
		if err := lock.Release(s.Context()); err != nil {
			s.Errorf("Release: %v", err)
		}
		s.eventuallyFree()
	})
}

func TestMajorityPaused(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker(redlock.WithNodeTimeout(brief))
		s.warm(locker)
		s.pause(0, 2, 4)
		if _, err := locker.TryAcquire(s.Context(), s.key); !errors.Is(err, redlock.ErrNoQuorum) {
			s.Errorf("three of five paused: %v, want ErrNoQuorum", err)
		}
		s.eventuallyFree() // at the two others
		s.resume(0, 2, 4)
		s.eventuallyFree()
		s.eventually("the nodes serve again", func() bool {
			lock, err := locker.TryAcquire(s.Context(), s.key)
			return err == nil && lock.Release(s.Context()) == nil
		})
		s.eventuallyFree()
	})
}
