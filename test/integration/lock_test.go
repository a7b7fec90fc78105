package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

var all = []int{0, 1, 2, 3, 4}

func TestLockAndUnlock(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.locker(), s.locker()
		lock := s.acquire(ours)
		s.eventuallyHolds(lock.Token(), all...)
		s.confirm(lock)
		if left := time.Until(lock.Until()); !lock.Valid() || left < 9*time.Second || left > 10*time.Second {
			s.Errorf("Valid = %v with %v left, want almost the default of 10s", lock.Valid(), left)
		}
		s.fails(failed(theirs.TryAcquire(s.Context(), s.key)), redlock.ErrTaken, "a second client")
		s.eventuallyHolds(lock.Token(), all...)

		s.release(lock)
		if cause := context.Cause(lock.Context()); !errors.Is(cause, redlock.ErrReleased) || lock.Valid() {
			s.Errorf("after Release: Valid = %v and the context's cause is %v, want ErrReleased", lock.Valid(), cause)
		}
		s.eventuallyFree()
		s.fails(lock.Release(), redlock.ErrReleased, "a second Release")
		next := s.acquire(theirs)
		s.fails(lock.Extend(s.Context(), time.Minute), redlock.ErrReleased, "Extend after Release")
		s.eventuallyHolds(next.Token(), all...)
	})
}

func TestLockersShareNodesAndTheLastOneClosesThem(t *testing.T) {
	onEach(t, func(s *site) {
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
	onEach(t, func(s *site) {
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

func TestExtendProlongs(t *testing.T) {
	onEach(t, func(s *site) {
		lock := s.acquire(s.locker(redlock.WithNodeTimeout(brief)), redlock.WithTTL(2*time.Second))
		before := lock.Until()
		if err := lock.Extend(s.Context(), time.Minute); err != nil {
			s.Fatalf("Extend: %v", err)
		}
		long := lock.Until()
		if gained := long.Sub(before); gained < 50*time.Second {
			s.Errorf("an extension from 2s to 1m gained %v", gained)
		}
		for i := range all {
			s.eventually("the node has the longer lease", func() bool {
				return s.looks[i].PTTL(s.Context(), s.key).Val() > 30*time.Second
			})
		}
		s.check(lock.Extend(s.Context(), time.Second), "a shorter Extend")
		if cut := long.Sub(lock.Until()); cut > 50*time.Millisecond { // wall-clock times may differ a little
			s.Errorf("a shorter extension took %v off the lease", cut)
		}
		for i := range all {
			if left := s.looks[i].PTTL(s.Context(), s.key).Val(); left < 30*time.Second {
				s.Errorf("a shorter extension left %v at node %d", left, i+1)
			}
		}
	})
}

func TestTakenOver(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.locker(), s.locker()
		lock := s.acquire(ours)
		s.eventuallyHolds(lock.Token(), all...)
		for i := range all { // somebody deletes it by hand
			s.must(s.looks[i].Del(s.Context(), s.key).Err())
		}
		next := s.acquire(theirs)
		s.eventuallyHolds(next.Token(), all...)
		if held, err := lock.Confirm(s.Context()); held || err != nil {
			s.Errorf("Held = %v, %v, want false", held, err)
		}
		s.fails(lock.Extend(s.Context(), time.Minute), redlock.ErrLost, "Extend")
		s.fails(lock.Release(), redlock.ErrLost, "Release")
		s.eventuallyHolds(next.Token(), all...)
	})
}

func TestForeignKeyExcludes(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker()
		for _, i := range []int{1, 2, 4} { // as any other Redlock library would
			s.must(s.looks[i].SetArgs(s.Context(), s.key, "foreign", setNX).Err())
		}
		s.fails(failed(locker.TryAcquire(s.Context(), s.key)), redlock.ErrTaken, "a foreign key at three of five")
		s.eventuallyHolds("foreign", 1, 2, 4)
		s.eventuallyHolds("", 0, 3)
	})
}

func TestCloseReleasesAll(t *testing.T) {
	onEach(t, func(s *site) {
		locker, err := redlock.New(s.client.nodes(s.T, s.addrs()))
		s.must(err)
		var locks []*redlock.Lock
		for i := range 20 {
			lock, err := locker.TryAcquire(s.Context(), fmt.Sprint(s.key, i))
			s.must(err)
			locks = append(locks, lock)
		}
		s.check(locker.Close(), "Close")
		for i := range all { // at once, not eventually: Close has waited
			if left := s.keys(i); len(left) > 0 {
				s.Errorf("Close has left %d keys at node %d", len(left), i+1)
			}
		}
		for _, lock := range locks {
			if cause := context.Cause(lock.Context()); !errors.Is(cause, redlock.ErrClosed) {
				s.Fatalf("the cause of %s is %v, want ErrClosed", lock.Key(), cause)
			}
		}
		s.fails(failed(locker.TryAcquire(s.Context(), s.key)), redlock.ErrClosed, "TryAcquire after Close")
	})
}

// Releases that wait for a node together go as one command, in which each key has its
// own fate.
func TestReleasesTogether(t *testing.T) {
	onEach(t, func(s *site) {
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

// setNX is how other libraries take a lock.
var setNX = redis.SetArgs{Mode: "NX", TTL: 10 * time.Second}

func TestNodesKilled(t *testing.T) {
	onEach(t, func(s *site) {
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
			if v := quorum.Votes[i]; v.Answer != redlock.Failed || v.Err == nil || !mentions(err, v.Node) {
				s.Errorf("dead node %d voted %v", i+1, v)
			}
		}
		s.fails(late.Extend(s.Context(), time.Minute), redlock.ErrNoQuorum, "Extend with three of five dead")
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
		s.confirm(lock)
		s.eventually("extensions set the key again where it was lost", func() bool {
			if err := lock.Extend(s.Context(), time.Minute); err != nil {
				s.Fatalf("Extend: %v", err)
			}
			return s.holder(0) == lock.Token() && s.holder(1) == lock.Token()
		})
		s.release(lock)
		s.eventuallyFree()
	})
}
