package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

var all = []int{0, 1, 2, 3, 4}

// The life of a lock. Leases are long: a key that is left is seen, and so is a waiter that is not woken.
func TestLockAndUnlock(t *testing.T) {
	onEach(t, func(s *site) {
		const owner = "orders@web-7/4211"
		options := []redlock.Option{redlock.WithTTL(long), redlock.WithBackoff(long, long), redlock.WithOwner(owner), redlock.WithNodeTimeout(30 * time.Second)}
		ours, theirs := s.locker(options...), s.locker(options...)
		// Before somebody waits: a node that still had the waiter's ticket would refuse the next lock.
		lost := s.acquire(ours)
		s.eventuallyHolds(lost.Token(), all...)
		for _, look := range s.looks { // somebody deletes it by hand
			s.must(look.Del(s.Context(), s.key).Err())
		}
		other := s.acquire(theirs)
		s.eventuallyHolds(other.Token(), all...)
		if held, err := lost.Confirm(s.Context()); held || err != nil {
			s.Errorf("Confirm of a lock that another has = %v, %v, want false", held, err)
		}
		s.fails(lost.Extend(s.Context(), time.Minute), redlock.ErrLost, "Extend")
		s.fails(lost.Release(), redlock.ErrLost, "Release")
		s.eventuallyHolds(other.Token(), all...)
		s.release(other)
		s.eventuallyFree()

		lock := s.acquire(ours)
		s.eventuallyHolds(lock.Token(), all...)
		s.confirm(lock)
		var refused *redlock.QuorumError
		if _, err := theirs.TryAcquire(s.Context(), s.key); !errors.Is(err, redlock.ErrTaken) || !errors.As(err, &refused) || refused.Owner() != owner {
			s.Errorf("a second client: %v, want ErrTaken with the owner", err)
		}
		for holder, err := range theirs.Watch(s.Context(), s.key) {
			if err != nil || holder.Owner != owner {
				s.Errorf("Watch of a key that is held yields %+v, %v, want the owner", holder, err)
			}
			break
		}

		s.check(lock.Extend(s.Context(), 2*long), "Extend")
		s.check(lock.Extend(s.Context(), time.Minute), "a shorter Extend")
		if left := time.Until(lock.Until()); left < long {
			s.Errorf("behind an extension to %v, and a shorter one, the lock has %v left", 2*long, left)
		}
		for _, look := range s.looks {
			s.eventually("the node has the longer lease", func() bool { return look.PTTL(s.Context(), s.key).Val() > long })
		}

		next := s.waits(theirs)
		s.listening(s.key, len(all))
		select {
		case <-lock.Wanted():
		case <-time.After(patience):
			s.Error("another process waits, and the holder was not told")
		}
		s.release(lock)
		if cause := context.Cause(lock.Context()); !errors.Is(cause, redlock.ErrReleased) || lock.Valid() {
			s.Errorf("after Release: Valid = %v and the context's cause is %v, want ErrReleased", lock.Valid(), cause)
		}
		select {
		case err := <-next:
			s.check(err, "who waited in another process")
		case <-time.After(patience):
			s.Fatal("the release has not woken who waits in another process")
		}
		s.eventuallyFree()
		s.fails(lock.Release(), redlock.ErrReleased, "a second Release")
	})
}
