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
)

var all = []int{0, 1, 2, 3, 4}

func TestLockAndUnlock(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.locker(), s.locker()
		lock := s.acquire(ours)
		s.eventuallyHolds(lock.Token(), all...)
		if held, err := lock.Held(s.Context()); !held || err != nil {
			s.Errorf("Held = %v, %v, want true", held, err)
		}
		if left := time.Until(lock.Until()); !lock.Valid() || left < 9*time.Second || left > 10*time.Second {
			s.Errorf("Valid = %v with %v left, want almost the default of 10s", lock.Valid(), left)
		}
		if _, err := theirs.TryAcquire(s.Context(), s.key); !errors.Is(err, redlock.ErrTaken) {
			s.Errorf("a second client: %v, want ErrTaken", err)
		}
		s.eventuallyHolds(lock.Token(), all...)

		if err := lock.Release(s.Context()); err != nil {
			s.Errorf("Release: %v", err)
		}
		if cause := context.Cause(lock.Context()); !errors.Is(cause, redlock.ErrReleased) || lock.Valid() {
			s.Errorf("after Release: Valid = %v and the context's cause is %v, want ErrReleased", lock.Valid(), cause)
		}
		s.eventuallyFree()
		if err := lock.Release(s.Context()); !errors.Is(err, redlock.ErrReleased) {
			s.Errorf("a second Release: %v, want ErrReleased", err)
		}
		next := s.acquire(theirs)
		if err := lock.Extend(s.Context(), time.Minute); !errors.Is(err, redlock.ErrReleased) {
			s.Errorf("Extend after Release: %v, want ErrReleased", err)
		}
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
		if err != nil {
			s.Fatal(err)
		}
		for name, nodes := range map[string][]driver.Node{"given": s.client.nodes(s.T, s.addrs()), "opened": opened} {
			made := func() *redlock.Locker {
				locker, err := redlock.New(nodes, redlock.WithNodeTimeout(generous))
				if err != nil {
					s.Fatal(err)
				}
				return locker
			}
			closed := func(locker *redlock.Locker) {
				if err := locker.Close(); err != nil {
					s.Errorf("%s clients: Close: %v", name, err)
				}
			}
			one, two := made(), made()
			s.release(s.acquire(one))
			lock := s.acquire(two)
			closed(one)
			if err := lock.Extend(s.Context(), time.Minute); err != nil {
				s.Errorf("%s clients: Extend after another Locker on the nodes was closed: %v", name, err)
			}
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
		if err := lock.Extend(s.Context(), time.Minute); !errors.Is(err, redlock.ErrLost) {
			s.Errorf("Extend of a lost lock: %v, want ErrLost", err)
		}
		if err := lock.Release(s.Context()); !errors.Is(err, redlock.ErrLost) {
			s.Errorf("Release of a lost lock: %v, want ErrLost", err)
		}
		if held, err := next.Held(s.Context()); !held || err != nil {
			s.Errorf("the next: Held = %v, %v, want true", held, err)
		}
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
		if err := lock.Extend(s.Context(), time.Second); err != nil {
			s.Errorf("a shorter Extend: %v", err)
		}
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
			if err := s.looks[i].Del(s.Context(), s.key).Err(); err != nil {
				s.Fatal(err)
			}
		}
		next := s.acquire(theirs)
		s.eventuallyHolds(next.Token(), all...)
		if held, err := lock.Held(s.Context()); held || err != nil {
			s.Errorf("Held = %v, %v, want false", held, err)
		}
		if err := lock.Extend(s.Context(), time.Minute); !errors.Is(err, redlock.ErrLost) {
			s.Errorf("Extend: %v, want ErrLost", err)
		}
		if err := lock.Release(s.Context()); !errors.Is(err, redlock.ErrLost) {
			s.Errorf("Release: %v, want ErrLost", err)
		}
		s.eventuallyHolds(next.Token(), all...)
	})
}

func TestForeignKeyExcludes(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker()
		for _, i := range []int{1, 2, 4} { // as any other Redlock library would
			if err := s.looks[i].SetArgs(s.Context(), s.key, "foreign", setNX).Err(); err != nil {
				s.Fatal(err)
			}
		}
		if _, err := locker.TryAcquire(s.Context(), s.key); !errors.Is(err, redlock.ErrTaken) {
			s.Errorf("a foreign key at three of five: %v, want ErrTaken", err)
		}
		s.eventuallyHolds("foreign", 1, 2, 4)
		s.eventuallyHolds("", 0, 3)
	})
}

func TestCloseReleasesAll(t *testing.T) {
	onEach(t, func(s *site) {
		locker, err := redlock.New(s.client.nodes(s.T, s.addrs()))
		if err != nil {
			s.Fatal(err)
		}
		var locks []*redlock.Lock
		for i := range 20 {
			lock, err := locker.TryAcquire(s.Context(), fmt.Sprint(s.key, i))
			if err != nil {
				s.Fatal(err)
			}
			locks = append(locks, lock)
		}
		if err := locker.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
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
		if _, err := locker.TryAcquire(s.Context(), s.key); !errors.Is(err, redlock.ErrClosed) {
			s.Errorf("TryAcquire after Close: %v, want ErrClosed", err)
		}
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
			group.Go(func() { errs[i] = lock.Release(s.Context()) })
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
