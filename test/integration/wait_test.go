package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/proxy"
)

// waiting is an Acquire under way.
type waiting chan error

// waits acquires in the background, and hands the lock to then.
func (s *site) waits(locker *redlock.Locker, then func(*redlock.Lock) error) waiting {
	result := make(waiting, 1)
	go func() {
		lock, err := locker.Acquire(s.Context(), s.key)
		if err == nil {
			err = then(lock)
		}
		result <- err
	}()
	return result
}

// listening waits until so many nodes have a listener for the site's key.
func (s *site) listening(nodes int) {
	s.Helper()
	s.listeningFor(s.key, nodes)
}

// listeningFor waits until so many nodes have a listener for a key.
func (s *site) listeningFor(key string, nodes int) {
	s.Helper()
	channel := "ql:free:" + key
	s.eventually("waiters listen", func() bool {
		count := 0
		for i, look := range s.looks {
			if s.paused[i] || s.down[i] {
				continue
			}
			if look.PubSubNumSub(s.Context(), channel).Val()[channel] > 0 {
				count++
			}
		}
		return count >= nodes
	})
}

// A waiter in another process is woken by the release. Without that it would try again
// when the holder's lease expires, which is long.
func TestReleaseWakesAnotherProcess(t *testing.T) {
	onEach(t, func(s *site) {
		options := []redlock.Option{redlock.WithTTL(long), redlock.WithNodeTimeout(brief), redlock.WithBackoff(long, long)}
		ours, theirs := s.locker(options...), s.locker(options...)
		wakes := func(nodes int) {
			lock := s.acquire(ours)
			next := s.waits(theirs, func(lock *redlock.Lock) error { return lock.Release() })
			s.listening(nodes)
			s.release(lock)
			select {
			case err := <-next:
				s.check(err, "the waiter")
			case <-time.After(patience):
				s.Fatalf("with %d nodes nobody has woken the waiter", nodes)
			}
			s.eventuallyFree()
		}
		for range 2 {
			s.warm(ours)
			s.warm(theirs)
			wakes(len(all))
		}
		s.pause(0)
		s.kill(1)
		wakes(3) // these wake the waiter
	})
}

// A lock goes down the line of one Locker, past a node that has lost the key.
func TestHandOver(t *testing.T) {
	onEach(t, func(s *site) {
		const waiters = 6
		locker := s.locker(redlock.WithTTL(long))
		lock := s.acquire(locker)
		s.eventuallyHolds(lock.Token(), all...)
		s.must(s.looks[0].Del(s.Context(), s.key).Err())
		var line []waiting
		for range waiters {
			line = append(line, s.waits(locker, func(lock *redlock.Lock) error {
				have := 0
				for _, look := range s.looks {
					if look.Get(s.Context(), s.key).Val() == lock.Token() {
						have++
					}
				}
				if have < 3 {
					return fmt.Errorf("%d of five nodes have the token of a lock that was handed over", have)
				}
				return lock.Release()
			}))
		}
		s.release(lock)
		for i, waiter := range line {
			s.check(<-waiter, "waiter %d", i+1)
		}
		s.eventuallyFree()
	})
}

// Many processes and many waiters on one key: never two holders, and everybody is served.
func TestContention(t *testing.T) {
	onEach(t, func(s *site) {
		const processes, waiters, turns = 4, 4, 5
		for _, options := range [][]redlock.Option{nil, {redlock.WithFences()}} {
			var lockers [processes]*redlock.Locker
			for i := range lockers {
				lockers[i] = s.locker(options...)
			}
			s.contend(processes*waiters, turns, func(caller, _ int) (holding, []string, error) {
				lock, err := lockers[caller%processes].Acquire(s.Context(), s.key, redlock.WithMaxWait(patience))
				return lock, []string{s.key}, err
			})
			s.eventuallyFree()
		}
	})
}

// A renewal gives the key back to nodes that came back empty, and outlasts their
// absence.
func TestRenewalHeals(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker(redlock.WithNodeTimeout(brief))
		lock := s.acquire(locker, redlock.WithTTL(3*time.Second), redlock.WithRenewal())
		s.eventuallyHolds(lock.Token(), all...)
		s.kill(0, 1)
		s.start(0, 1)
		s.eventuallyHolds(lock.Token(), all...)
		if !lock.Valid() {
			s.Error("the lock was lost")
		}
	})
}

// Where the user may not use channels, releases work, waiters poll, and both say so.
func TestForbiddenChannels(t *testing.T) {
	onEach(t, func(s *site) {
		if !s.kind.real {
			return // embedded nodes have no ACL
		}
		user := "nochannels-" + s.client.name
		for _, look := range s.looks {
			rules := []any{"ACL", "SETUSER", user, "on", ">secret", "~*", "resetchannels", "+@all"}
			s.must(look.Do(s.Context(), rules...).Err())
			s.Cleanup(func() { look.Do(context.Background(), "ACL", "DELUSER", user) })
		}
		var urls []string
		for _, addr := range s.addrs() {
			urls = append(urls, "redis://"+user+":secret@"+addr)
		}
		var seen eventLog // by the waiter
		ours := newLocker(s.T, s.client.reach(s.T, urls...), redlock.WithTTL(long))
		theirs := newLocker(s.T, s.client.reach(s.T, urls...), redlock.WithTTL(long), redlock.OnEvent(seen.note))
		lock := s.acquire(ours)
		next := s.waits(theirs, func(lock *redlock.Lock) error { return lock.Release() })
		s.eventually("the waiter's nodes are reported as muted", func() bool { return len(seen.of(redlock.NodeMuted, "ql:free:")) >= 3 })
		s.release(lock)
		s.check(<-next, "the waiter")
		s.eventuallyFree()
	})
}

// The links to three of five nodes are cut without a reset: the holder's context ends by
// its deadline, and nobody else has the lock before.
func TestPitfall10SilentLinkEndsTheContextAtTheDeadline(t *testing.T) {
	onEach(t, func(s *site) {
		proxies, addrs := s.proxies()
		ours, theirs := s.lockerOn(addrs, redlock.WithNodeTimeout(brief), redlock.WithCloseTimeout(patience)), s.locker(redlock.WithNodeTimeout(brief))
		lock := s.acquire(ours, redlock.WithTTL(3*time.Second), redlock.WithRenewal())
		ctx := lock.Context()
		var early error
		next := s.waits(theirs, func(*redlock.Lock) error {
			if ctx.Err() == nil || lock.Valid() {
				early = errors.New("a second holder, and the first one's context has not ended")
			}
			return early
		})
		for _, p := range proxies[:3] {
			p.Cut(proxy.Both)
		}
		s.check(<-next, "the next")
		if cause := context.Cause(ctx); !errors.Is(cause, redlock.ErrLost) {
			s.Errorf("the context ended because of %v, want ErrLost", cause)
		}
		for _, p := range proxies {
			p.Mend()
		}
	})
}

// Three Lockers, each of which holds a key and waits for that of the next.
func TestProcessesThatWaitForEachOther(t *testing.T) {
	onEach(t, func(s *site) {
		const size = 3
		key := func(i int) string { return s.key + string(rune('a'+i%size)) }
		type outcome struct {
			who int
			err error
		}
		results := make(chan outcome, size)
		var lockers [size]*redlock.Locker
		var held [size]*redlock.Lock
		for i := range held {
			lockers[i] = s.locker(redlock.WithDeadlockDetection(200*time.Millisecond), redlock.WithOwner(key(i)))
			lock, err := lockers[i].Acquire(s.Context(), key(i), redlock.WithTTL(long))
			s.must(err)
			held[i] = lock
		}
		for i, lock := range held {
			go func() {
				next, err := lockers[i].Acquire(lock.Context(), key(i+1), redlock.WithMaxWait(patience))
				if err == nil {
					err = next.Release()
				}
				results <- outcome{i, errors.Join(err, lock.Release())}
			}()
		}
		failed := 0
		for range size {
			r := <-results
			var ring *redlock.DeadlockError
			switch {
			case r.err == nil:
			case !errors.As(r.err, &ring):
				s.Errorf("wait %d = %v, want the lock or a deadlock", r.who, r.err)
			default:
				failed++
				for i, wait := range ring.Cycle {
					if next := ring.Cycle[(i+1)%len(ring.Cycle)]; len(ring.Cycle) != size || wait.WaitsFor != next.Holds || wait.Owner != wait.Holds {
						s.Errorf("the ring is %v, want all three keys with their owners", ring)
					}
				}
			}
		}
		if failed != 1 {
			s.Errorf("%d of three waits in a ring gave up, want one", failed)
		}
		s.eventuallyFree()
	})
}
