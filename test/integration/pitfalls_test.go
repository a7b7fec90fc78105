package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

// The caller's deadline passes in the middle of an acquire. The clean-up must not hang
// on that context: what the good nodes have set goes away at once, and not by its TTL.
func TestPitfall01CleanupOutlivesTheCaller(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker(redlock.WithTTL(long))
		s.warm(locker)
		s.pause(0, 1, 2)
		ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
		defer cancel()
		s.fails(failed(locker.Acquire(ctx, s.key)), context.DeadlineExceeded, "Acquire with three of five paused")
		s.eventuallyFree() // at the two that answer
		s.resume(0, 1, 2)
		s.eventuallyFree()
	})
}

// One silent node must not hold up what the others have decided.
func TestPitfall02SilentMinorityHoldsUpNothing(t *testing.T) {
	onEach(t, func(s *site) {
		const timeout = 30 * time.Second
		locker := s.locker(redlock.WithTTL(long), redlock.WithNodeTimeout(timeout))
		s.warm(locker)
		lock := s.acquire(locker)
		s.pause(1, 3)
		for _, step := range []struct {
			name string
			do   func() error
		}{
			{"Extend", func() error { return lock.Extend(s.Context(), 2*long) }},
			{"Confirm", func() error { _, err := lock.Confirm(s.Context()); return err }},
			{"Release", func() error { return lock.Release() }},
			{"TryAcquire", func() error { _, err := locker.TryAcquire(s.Context(), s.key+" other"); return err }},
		} {
			watch := patient.Start()
			err := step.do()
			if took := watch.Took(); err != nil || took > timeout/4 {
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
	onEach(t, func(s *site) {
		locker := s.locker(redlock.WithTTL(long), redlock.WithNodeTimeout(brief))
		s.warm(locker)
		sets := s.sets(0)
		s.pause(0)
		lock := s.acquire(locker)
		s.eventually("the locker has given the paused node up", func() bool { // what had not left would not be sent
			return lock.Votes()[0].Answer == redlock.Failed
		})
		s.release(lock)
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
		ours := s.locker(redlock.WithTTL(long), redlock.WithNodeTimeout(brief))
		theirs := s.locker(redlock.WithTTL(long), redlock.WithNodeTimeout(brief))
		s.warm(ours)
		s.warm(theirs)
		lock := s.acquire(ours)
		s.eventuallyHolds(lock.Token(), all...)
		s.pause(0)
		s.release(lock)
		s.eventuallyFree() // a quorum was enough for the release
		next := s.acquire(theirs)
		s.eventuallyHolds(next.Token(), 1, 2, 3, 4)
		s.resume(0)
		s.eventually("the late release takes our key away", func() bool { return s.holder(0) != lock.Token() })
		s.eventuallyHolds(next.Token(), 1, 2, 3, 4)
		s.confirm(next)
	})
}

// A try that is lost leaves nothing on the nodes that had voted for it, or would have.
func TestPitfall04LostTriesLeaveNothing(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.locker(redlock.WithTTL(long)), s.locker(redlock.WithTTL(long))
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
						err = lock.Release()
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
		locker := s.lockerOn(addrs, redlock.WithTTL(long))
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
				s.release(lock)
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
			s.must(s.looks[i].Set(s.Context(), s.key, "foreign", time.Minute).Err())
		}
		locker := s.locker()
		for range 3 {
			lock := s.acquire(locker)
			s.check(lock.Extend(s.Context(), time.Minute), "Extend")
			s.release(lock)
			s.eventuallyHolds("", 1, 2, 4)
		}
		s.eventuallyHolds("foreign", 0, 3)
		for _, i := range []int{0, 3} {
			s.must(s.looks[i].Del(context.Background(), s.key).Err())
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
		locker := s.locker(redlock.WithTTL(long), redlock.WithNodeTimeout(time.Minute))
		var (
			workers sync.WaitGroup
			errs    = make(chan error, many)
		)
		for i := range many {
			workers.Go(func() {
				lock, err := locker.TryAcquire(s.Context(), fmt.Sprint(s.key, i))
				if err == nil {
					err = lock.Release()
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
		s.fails(failed(lockers[2].TryAcquire(s.Context(), s.key+" other")), redlock.ErrNoQuorum, "one of two dead")
		lock := s.acquire(lockers[4])
		s.release(lock)
		s.kill(3)
		s.fails(failed(lockers[4].TryAcquire(s.Context(), s.key)), redlock.ErrNoQuorum, "two of four dead")
		s.eventuallyFree()
	})
}
