package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// A try that is lost leaves nothing on the nodes that had voted for it, or would have.
func TestPitfall04LostTriesLeaveNothing(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.locker(redlock.WithTTL(5*time.Minute)), s.locker(redlock.WithTTL(5*time.Minute))
		lost := 0
		for range 100 {
			var (
				contenders sync.WaitGroup
				errs       [2]error
			)
			for i, locker := range []*redlock.Locker{ours, theirs} {
				contenders.Go(func() {
					lock, err := locker.TryAcquire(s.Context(), s.key)
					if err == nil {
						err = lock.Release(s.Context())
					}
					errs[i] = err
				})
			}
			contenders.Wait()
			for _, err := range errs {
				switch {
				case errors.Is(err, redlock.ErrTaken), errors.Is(err, redlock.ErrContended):
					lost++
				case err != nil:
					s.Errorf("neither won nor lost: %v", err)
				}
			}
		}
		s.Logf("%d of 200 tries were lost", lost)
		s.eventuallyFree()
	})
}

// A reply is lost, and the client library or the core sends the command again: our own
// token must count as held, and not as another's.
func TestPitfall07LostReplyIsNotHeldByAnother(t *testing.T) {
	onEach(t, func(s *site) {
		proxies, addrs := s.proxies()
		s.harmed = true
		locker := s.lockerOn(addrs, redlock.WithTTL(5*time.Minute))
		for _, rest := range []int{0, 2} { // bytes of the reply that arrive
			s.warm(locker)
			for _, p := range proxies {
				p.Truncate(rest)
			}
			lock, err := locker.TryAcquire(s.Context(), s.key)
			switch {
			case errors.Is(err, redlock.ErrTaken):
				s.Errorf("%d bytes of each reply: %v, but nobody else has it", rest, err)
			case err != nil && !errors.Is(err, redlock.ErrNoQuorum):
				s.Errorf("%d bytes of each reply: %v, want a lock or ErrNoQuorum", rest, err)
			case err == nil:
				if err := lock.Release(s.Context()); err != nil {
					s.Errorf("Release: %v", err)
				}
			}
			for _, p := range proxies {
				p.Truncate(-1)
			}
			s.eventuallyFree()
		}
	})
}

// One foreign key on a minority of nodes changes nothing.
func TestPitfall11ForeignKeyOnAMinority(t *testing.T) {
	onEach(t, func(s *site) {
		for _, i := range []int{0, 3} {
			if err := s.looks[i].Set(s.Context(), s.key, "foreign", time.Minute).Err(); err != nil {
				s.Fatal(err)
			}
		}
		locker := s.locker()
		for range 3 {
			lock := s.acquire(locker)
			if err := lock.Extend(s.Context(), time.Minute); err != nil {
				s.Errorf("Extend: %v", err)
			}
			if err := lock.Release(s.Context()); err != nil {
				s.Errorf("Release: %v", err)
			}
			s.eventuallyHolds("", 1, 2, 4)
		}
		s.eventuallyHolds("foreign", 0, 3)
		for _, i := range []int{0, 3} {
			if err := s.looks[i].Del(context.Background(), s.key).Err(); err != nil {
				s.Fatal(err)
			}
		}
	})
}

// Ten thousand goroutines, each on a key of its own, all come to an end.
func TestPitfall13ManyKeysAtOnce(t *testing.T) {
	onEach(t, func(s *site) {
		many := 10_000
		if !s.kind.real {
			many = 300 // miniredis goes through all its keys at every command
		}
		locker := s.locker(redlock.WithTTL(5*time.Minute), redlock.WithNodeTimeout(time.Minute))
		var (
			workers sync.WaitGroup
			errs    = make(chan error, many)
		)
		for i := range many {
			workers.Go(func() {
				lock, err := locker.TryAcquire(s.Context(), fmt.Sprint(s.key, i))
				if err == nil {
					err = lock.Release(s.Context())
				}
				if err != nil {
					errs <- err
				}
			})
		}
		workers.Wait()
		if failed := len(errs); failed > 0 {
			s.Errorf("%d of %d failed, one of them by %v", failed, many, <-errs)
		}
		s.eventuallyFree()
	})
}

// An even number of nodes decides as well: with half of them dead there is no quorum.
func TestPitfall17EvenNumbers(t *testing.T) {
	onEach(t, func(s *site) {
		const most = 4
		lockers := map[int]*redlock.Locker{}
		for nodes := 2; nodes <= most; nodes += 2 {
			lockers[nodes] = s.lockerOn(s.addrs()[:nodes])
			s.warm(lockers[nodes])
		}
		s.kill(1)
		if _, err := lockers[2].TryAcquire(s.Context(), s.key+" other"); !errors.Is(err, redlock.ErrNoQuorum) {
			s.Errorf("one of two dead: %v, want ErrNoQuorum", err)
		}
		lock := s.acquire(lockers[4])
		if err := lock.Release(s.Context()); err != nil {
			s.Errorf("one of four dead: Release = %v", err)
		}
		s.kill(3)
		if _, err := lockers[4].TryAcquire(s.Context(), s.key); !errors.Is(err, redlock.ErrNoQuorum) {
			s.Errorf("two of four dead: %v, want ErrNoQuorum", err)
		}
		s.eventuallyFree()
	})
}
