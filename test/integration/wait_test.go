package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/proxy"
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
// when the holder's lease expires, in five minutes.
func TestReleaseWakesAnotherProcess(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.locker(redlock.WithTTL(5*time.Minute)), s.locker(redlock.WithTTL(5*time.Minute), redlock.WithBackoff(time.Minute, time.Minute))
		for round := range 3 {
			lock := s.acquire(ours)
			next := s.waits(theirs, func(lock *redlock.Lock) error { return lock.Release(s.Context()) })
			s.listening(len(all))
			if err := lock.Release(s.Context()); err != nil {
				s.Errorf("Release: %v", err)
			}
			select {
			case err := <-next:
				if err != nil {
					s.Errorf("round %d: the waiter: %v", round+1, err)
				}
			case <-time.After(patience):
				s.Fatalf("round %d: nobody has woken the waiter", round+1)
			}
			s.eventuallyFree()
		}
	})
}

// Two of five nodes are away; the others wake the waiter.
func TestReleaseWakesPastAMinority(t *testing.T) {
	onEach(t, func(s *site) {
		options := []redlock.Option{redlock.WithTTL(5 * time.Minute), redlock.WithNodeTimeout(brief), redlock.WithBackoff(time.Minute, time.Minute)}
		ours, theirs := s.locker(options...), s.locker(options...)
		s.warm(ours)
		s.warm(theirs)
		s.pause(0)
		s.kill(1)
		lock := s.acquire(ours)
		next := s.waits(theirs, func(lock *redlock.Lock) error { return lock.Release(s.Context()) })
		s.listening(3)
		if err := lock.Release(s.Context()); err != nil {
			s.Errorf("Release: %v", err)
		}
		select {
		case err := <-next:
			if err != nil {
				s.Errorf("the waiter: %v", err)
			}
		case <-time.After(patience):
			s.Error("nobody has woken the waiter")
		}
	})
}

// A lock goes down the line of one Locker, past a node that has lost the key.
func TestHandOver(t *testing.T) {
	onEach(t, func(s *site) {
		const waiters = 6
		locker := s.locker(redlock.WithTTL(5 * time.Minute))
		lock := s.acquire(locker)
		s.eventuallyHolds(lock.Token(), all...)
		if err := s.looks[0].Del(s.Context(), s.key).Err(); err != nil {
			s.Fatal(err)
		}
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
				return lock.Release(s.Context())
			}))
		}
		if err := lock.Release(s.Context()); err != nil {
			s.Errorf("Release: %v", err)
		}
		for i, waiter := range line {
			if err := <-waiter; err != nil {
				s.Errorf("waiter %d: %v", i+1, err)
			}
		}
		s.eventuallyFree()
	})
}

// Many processes and many waiters on one key: never two holders, and everybody is
// served.
func TestContention(t *testing.T) {
	onEach(t, func(s *site) {
		const processes, waiters, turns = 4, 4, 5
		var (
			group   sync.WaitGroup
			holder  sync.Mutex
			served  int
			lockers []*redlock.Locker
		)
		for range processes {
			lockers = append(lockers, s.locker())
		}
		for p, locker := range lockers {
			for w := range waiters {
				group.Go(func() {
					for range turns {
						err := locker.Do(s.Context(), s.key, func(context.Context) error {
							if !holder.TryLock() {
								return errors.New("two hold the lock")
							}
							served++
							holder.Unlock()
							return nil
						}, redlock.WithMaxWait(patience))
						if err != nil {
							s.Errorf("process %d, waiter %d: %v", p+1, w+1, err)
						}
					}
				})
			}
		}
		group.Wait()
		if want := processes * waiters * turns; served != want {
			s.Errorf("%d of %d turns were had", served, want)
		}
		s.eventuallyFree()
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
			if err := look.Do(s.Context(), rules...).Err(); err != nil {
				s.Fatal(err)
			}
			s.Cleanup(func() { look.Do(context.Background(), "ACL", "DELUSER", user) })
		}
		var (
			mu    sync.Mutex
			muted = map[string]int{}
		)
		open := func(name string) *redlock.Locker {
			var urls []string
			for _, addr := range s.addrs() {
				urls = append(urls, "redis://"+user+":secret@"+addr)
			}
			nodes, err := s.client.open(urls...)
			if err != nil {
				s.Fatal(err)
			}
			locker, err := redlock.New(nodes, redlock.WithTTL(5*time.Minute), redlock.OnEvent(func(e redlock.Event) {
				if e.Kind == redlock.NodeMuted && strings.Contains(fmt.Sprint(e.Err), "ql:free:") {
					mu.Lock()
					defer mu.Unlock()
					muted[name]++
				}
			}))
			if err != nil {
				s.Fatal(err)
			}
			s.Cleanup(func() { _ = locker.Close() })
			return locker
		}
		ours, theirs := open("releaser"), open("waiter")
		lock := s.acquire(ours)
		next := s.waits(theirs, func(lock *redlock.Lock) error { return lock.Release(s.Context()) })
		s.eventually("the waiter's nodes are reported as muted", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return muted["waiter"] >= 3
		})
		if err := lock.Release(s.Context()); err != nil {
			s.Errorf("Release where nothing may be announced: %v", err)
		}
		if err := <-next; err != nil {
			s.Errorf("the waiter: %v", err)
		}
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
		if err := <-next; err != nil {
			s.Errorf("the next: %v", err)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, redlock.ErrLost) {
			s.Errorf("the context ended because of %v, want ErrLost", cause)
		}
		for _, p := range proxies {
			p.Mend()
		}
	})
}
