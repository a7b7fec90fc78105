package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
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

// A renewal gives the key back to nodes that came back empty, and outlasts their absence.
func TestRenewalHeals(t *testing.T) {
	onEachOnce(t, func(s *site) {
		locker := s.renewing(s.addrs(), redlock.WithNodeTimeout(brief))
		lock := s.acquire(locker, redlock.WithTTL(3*time.Second))
		s.eventuallyHolds(lock.Token(), all...)
		s.kill(0, 1)
		s.start(0, 1)
		s.eventuallyHolds(lock.Token(), all...)
		if !lock.Valid() {
			s.Error("the lock was lost")
		}
	})
}

func TestLockersShareNodesAndTheLastOneClosesThem(t *testing.T) {
	onEachOnce(t, func(s *site) {
		var urls []string
		for _, addr := range s.addrs() {
			urls = append(urls, "redis://"+addr)
		}
		opened, err := s.client.open(urls...)
		s.must(err)
		for name, nodes := range map[string][]driver.Node{"given": s.client.nodes(s.T, s.addrs()), "opened": opened} {
			made := func() *redlock.Locker {
				locker, err := redlock.New(nodes, redlock.WithNodeTimeout(generous))
				s.must(err)
				return locker
			}
			closed := func(locker *redlock.Locker) {
				s.check(locker.Close(), "%s clients: Close", name)
			}
			one, two := made(), made()
			s.release(s.acquire(one))
			lock := s.acquire(two)
			closed(one)
			s.check(lock.Extend(s.Context(), time.Minute), "%s clients: Extend after another Locker on the nodes was closed", name)
			s.release(lock)
			s.eventuallyFree()
			closed(two)

			late := made()
			lock, err := late.TryAcquire(s.Context(), s.key)
			switch {
			case err == nil: // rueidis connects again, and so do redigo's pools
				s.release(lock)
			case !errors.Is(err, driver.ErrClosed):
				s.Errorf("%s clients: TryAcquire on nodes that were closed: %v, want driver.ErrClosed", name, err)
			}
			closed(late)
			s.eventuallyFree()
		}
	})
}

func TestExpiryHandsOver(t *testing.T) {
	onEachOnce(t, func(s *site) {
		ours, theirs := s.locker(redlock.WithNodeTimeout(brief)), s.locker()
		lock := s.acquire(ours, redlock.WithTTL(time.Second))
		ctx := lock.Context()
		next, err := theirs.Acquire(s.Context(), s.key, redlock.WithMaxWait(patience))
		if err != nil {
			s.Fatalf("waiting for a lock that is not released: %v", err)
		}
		if cause := context.Cause(ctx); lock.Valid() || !errors.Is(cause, redlock.ErrLost) {
			s.Errorf("the next has it, and Valid = %v, the context's cause is %v, want ErrLost", lock.Valid(), cause)
		}
		s.fails(lock.Extend(s.Context(), time.Minute), redlock.ErrLost, "Extend of a lost lock")
		s.fails(lock.Release(), redlock.ErrLost, "Release of a lost lock")
		s.confirm(next)
	})
}

// Releases that wait for a node together go as one command, in which each key has its
// own fate.
func TestReleasesTogether(t *testing.T) {
	onEachOnce(t, func(s *site) {
		const count, taken, odd = 100, 20, 40
		locker := s.locker()
		s.warm(locker)
		locks := make([]*redlock.Lock, count)
		var group sync.WaitGroup
		for i := range locks {
			group.Go(func() {
				var err error
				if locks[i], err = locker.TryAcquire(s.Context(), fmt.Sprintf("%s:%d", s.key, i)); err != nil {
					s.Errorf("TryAcquire %d: %v", i, err)
				}
			})
		}
		group.Wait()
		if s.Failed() {
			return
		}
		for i, look := range s.looks {
			s.eventually("all keys are there", func() bool { return len(s.keys(i)) >= count })
			pipe := look.Pipeline()
			pipe.Set(s.Context(), locks[taken].Key(), "another", patience)
			pipe.Del(s.Context(), locks[odd].Key())
			pipe.RPush(s.Context(), locks[odd].Key(), "not a lock")
			pipe.Expire(s.Context(), locks[odd].Key(), patience)
			if _, err := pipe.Exec(s.Context()); err != nil {
				s.Fatalf("taking locks away at node %d: %v", i+1, err)
			}
		}
		errs := make([]error, count)
		for i, lock := range locks {
			group.Go(func() { errs[i] = lock.Release() })
		}
		group.Wait()
		for i, err := range errs {
			var want error
			if i == taken || i == odd {
				want = redlock.ErrLost
			}
			if !errors.Is(err, want) {
				s.Errorf("Release %d, with %d taken over and %d not even a lock: %v, want %v", i, taken, odd, err, want)
			}
		}
	})
}

func TestNodesKilled(t *testing.T) {
	onEachOnce(t, func(s *site) {
		locker := s.locker()
		early := s.acquire(locker)
		s.eventuallyHolds(early.Token(), all...)
		s.kill(0, 1)
		s.check(early.Extend(s.Context(), time.Minute), "Extend with two of five dead")
		s.release(early)
		late := s.acquire(locker)
		s.kill(2)
		watch := patient.Start()
		_, err := locker.TryAcquire(s.Context(), s.key+" other")
		if took := watch.Took(); !errors.Is(err, redlock.ErrNoQuorum) || took > generous+2*time.Second {
			s.Errorf("three of five dead: TryAcquire = %v after %v, want ErrNoQuorum within the node time-out", err, took)
		}
		var quorum *redlock.QuorumError
		if !errors.As(err, &quorum) {
			s.Fatalf("the error is no QuorumError: %v", err)
		}
		for i := range 3 {
			if v := quorum.Votes[i]; v.Answer != "failed" || v.Err == nil || !mentions(err, v.Node) {
				s.Errorf("dead node %d voted %v", i+1, v)
			}
		}
		s.fails(late.Extend(s.Context(), time.Minute), redlock.ErrNoQuorum, "Extend with three of five dead")
		if !late.Valid() {
			s.Error("an extension that failed in time has ended the lock before its deadline")
		}
	})
}
