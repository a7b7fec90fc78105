package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// set returns so many keys of the site's own, in order.
func (s *site) set(count int) (keys []string) {
	for i := range count {
		keys = append(keys, fmt.Sprintf("%s:%03d", s.key, i))
	}
	return keys
}

// holders are the values of the key at all nodes.
func (s *site) holders(key string) (values []string) {
	for _, look := range s.looks {
		values = append(values, look.Get(context.Background(), key).Val())
	}
	return values
}

func TestAllKeysOrNone(t *testing.T) {
	onEach(t, func(s *site) {
		// 128 keys take a node, and the race detector, long on a busy machine.
		options := []redlock.Option{redlock.WithFences(), redlock.WithTTL(time.Minute), redlock.WithNodeTimeout(patience)}
		ours, theirs := s.locker(options...), s.locker(options...)
		keys := s.set(redlock.MaxKeys)
		single, err := theirs.Acquire(s.Context(), keys[100])
		if err != nil {
			s.Fatal(err)
		}
		_, err = ours.TryAcquireAll(s.Context(), keys)
		var refused *redlock.QuorumError
		if !errors.Is(err, redlock.ErrTaken) || !errors.As(err, &refused) ||
			!slices.ContainsFunc(refused.Votes, func(v redlock.Vote) bool { return v.Key == keys[100] }) {
			s.Errorf("TryAcquireAll with one key of %d taken = %v, want ErrTaken that names it", len(keys), err)
		}
		if err := single.Release(s.Context()); err != nil {
			s.Fatal(err)
		}
		lock, err := ours.AcquireAll(s.Context(), keys)
		if err != nil {
			s.Fatal(err)
		}
		if lock.Fence() <= single.Fence() {
			s.Errorf("the fence %d is not above %d, of the holder of one key before", lock.Fence(), single.Fence())
		}
		for _, key := range []string{keys[0], keys[100], keys[127]} {
			if _, err := theirs.TryAcquire(s.Context(), key); !errors.Is(err, redlock.ErrTaken) {
				s.Errorf("TryAcquire of a key of the set = %v, want ErrTaken", err)
			}
		}
		if held, err := lock.Held(s.Context()); !held || err != nil {
			s.Errorf("Held = %v, %v", held, err)
		}
		if err := lock.Extend(s.Context(), time.Minute); err != nil || time.Until(lock.Until()) < 50*time.Second {
			s.Errorf("Extend = %v, until %v", err, lock.Until())
		}
		if err := lock.Release(s.Context()); err != nil {
			s.Errorf("Release = %v", err)
		}
		next, err := theirs.TryAcquireAll(s.Context(), keys[50:60])
		if err != nil {
			s.Fatalf("TryAcquireAll after the release = %v", err)
		}
		if next.Fence() <= lock.Fence() {
			s.Errorf("the next fence %d is not above %d", next.Fence(), lock.Fence())
		}
		if err := next.Release(s.Context()); err != nil {
			s.Errorf("Release = %v", err)
		}
	})
}

func TestASetMeetsWhatIsNoLockOfOurs(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker()
		keys := s.set(3)
		for _, look := range s.looks {
			look.Set(s.Context(), keys[1], "another library's", time.Minute)
		}
		if _, err := locker.TryAcquireAll(s.Context(), keys); !errors.Is(err, redlock.ErrTaken) {
			s.Errorf("TryAcquireAll beside another library's lock = %v, want ErrTaken", err)
		}
		for _, look := range s.looks {
			look.Del(s.Context(), keys[1])
			look.RPush(s.Context(), keys[1], "a list")
		}
		_, err := locker.AcquireAll(s.Context(), keys)
		if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), fmt.Sprintf("key %q", keys[1])) || !strings.Contains(err.Error(), "not a lock") {
			s.Errorf("AcquireAll of a list = %v, want an error at once that names the key", err)
		}
		for _, look := range s.looks {
			look.Del(s.Context(), keys[1])
		}
	})
}

func TestSetsOfSeveralProcessesAreServed(t *testing.T) {
	onEach(t, func(s *site) {
		keys := s.set(8)
		lockers := []*redlock.Locker{s.locker(), s.locker()}
		var mu sync.Mutex
		inside := map[string]int{}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for range 5 {
					var wants []string
					for _, k := range rand.Perm(len(keys))[:2+rand.N(3)] { //nolint:gosec // no secret
						wants = append(wants, keys[k])
					}
					lock, err := lockers[i%2].AcquireAll(s.Context(), wants, redlock.WithMaxWait(patience))
					if err != nil {
						s.Errorf("AcquireAll = %v", err)
						return
					}
					mu.Lock()
					for _, key := range wants {
						if inside[key]++; inside[key] > 1 {
							s.Errorf("%q has two holders", key)
						}
					}
					mu.Unlock()
					mu.Lock()
					for _, key := range wants {
						inside[key]--
					}
					mu.Unlock()
					if err := lock.Release(s.Context()); err != nil {
						s.Errorf("Release = %v", err)
					}
				}
			})
		}
		all.Wait()
	})
}

// The marks of one who waits keep those off who want several keys and came later, in another
// process as well.
func TestAWaitingSetIsNotOvertakenByLaterOnes(t *testing.T) {
	onEach(t, func(s *site) {
		keys := s.set(3)
		ours, theirs := s.locker(), s.locker()
		held, err := theirs.Acquire(s.Context(), keys[2])
		if err != nil {
			s.Fatal(err)
		}
		served := make(chan error, 1)
		go func() {
			lock, err := ours.AcquireAll(s.Context(), keys)
			if err == nil {
				err = lock.Release(s.Context())
			}
			served <- err
		}()
		marked := func() bool { // at a node that the other lock has reached too late, it had the keys
			nodes := slices.DeleteFunc(s.holders("ql:wanted:{"+keys[0]+"}"), func(mark string) bool { return mark == "" })
			return len(nodes) > five/2
		}
		for end := time.Now().Add(patience); !marked(); {
			if time.Now().After(end) {
				s.Fatal("who waits has left no marks")
			}
		}
		if _, err := theirs.TryAcquireAll(s.Context(), keys[:2]); !errors.Is(err, redlock.ErrTaken) {
			s.Errorf("TryAcquireAll of keys for which another one waits = %v, want ErrTaken", err)
		}
		if lock, err := theirs.TryAcquire(s.Context(), keys[0]); err != nil {
			s.Errorf("TryAcquire of a single key for which somebody waits = %v, want the lock", err)
		} else if err := lock.Release(s.Context()); err != nil {
			s.Error(err)
		}
		if err := held.Release(s.Context()); err != nil {
			s.Error(err)
		}
		if err := <-served; err != nil {
			s.Errorf("AcquireAll = %v", err)
		}
	})
}
