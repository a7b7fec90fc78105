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

func TestAllKeysOrNone(t *testing.T) {
	onEach(t, func(s *site) {
		// 128 keys take a node, and the race detector, long on a busy machine.
		options := []redlock.Option{redlock.WithFences(), redlock.WithTTL(long), redlock.WithNodeTimeout(patience)}
		ours, theirs := s.locker(options...), s.locker(options...)
		keys := s.set(128)
		single, err := theirs.Acquire(s.Context(), keys[100])
		s.must(err)
		_, err = ours.TryAcquireAll(s.Context(), keys)
		var refused *redlock.QuorumError
		if !errors.Is(err, redlock.ErrTaken) || !errors.As(err, &refused) ||
			!slices.ContainsFunc(refused.Votes, func(v redlock.Vote) bool { return v.Key == keys[100] }) {
			s.Errorf("TryAcquireAll with one key of %d taken = %v, want ErrTaken that names it", len(keys), err)
		}
		s.must(single.Release())
		lock, err := ours.AcquireAll(s.Context(), keys)
		s.must(err)
		if lock.Fence() <= single.Fence() {
			s.Errorf("the fence %d is not above %d, of the holder of one key before", lock.Fence(), single.Fence())
		}
		for _, key := range []string{keys[0], keys[100], keys[127]} {
			s.fails(failed(theirs.TryAcquire(s.Context(), key)), redlock.ErrTaken, "TryAcquire of a key of the set")
		}
		s.confirm(lock)
		before := time.Now()
		if err := lock.Extend(s.Context(), 2*long); err != nil || lock.Until().Before(before.Add(2*long*9/10)) {
			s.Errorf("Extend = %v, until %v", err, lock.Until())
		}
		s.release(lock)
		next, err := theirs.TryAcquireAll(s.Context(), keys[50:60])
		if err != nil {
			s.Fatalf("TryAcquireAll after the release = %v", err)
		}
		if next.Fence() <= lock.Fence() {
			s.Errorf("the next fence %d is not above %d", next.Fence(), lock.Fence())
		}
		s.release(next)
	})
}

func TestASetMeetsWhatIsNoLockOfOurs(t *testing.T) {
	onEach(t, func(s *site) {
		locker := s.locker()
		keys := s.set(3)
		for _, look := range s.looks {
			look.Set(s.Context(), keys[1], "another library's", time.Minute)
		}
		s.fails(failed(locker.TryAcquireAll(s.Context(), keys)), redlock.ErrTaken, "TryAcquireAll beside another library's lock")
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
		s.contend(8, 5, func(caller, _ int) (holding, []string, error) {
			var wants []string
			for _, k := range rand.Perm(len(keys))[:2+rand.N(3)] { //nolint:gosec // no secret
				wants = append(wants, keys[k])
			}
			lock, err := lockers[caller%2].AcquireAll(s.Context(), wants, redlock.WithMaxWait(patience))
			return lock, wants, err
		})
	})
}

// The tickets of one who waits keep those off who heed lines and came later, in another process as
// well.
func TestAWaitingSetIsNotOvertakenByLaterOnes(t *testing.T) {
	onEach(t, func(s *site) {
		keys := s.set(3)
		ours, theirs := s.locker(), s.locker()
		held, err := theirs.Acquire(s.Context(), keys[2])
		s.must(err)
		served := make(chan error, 1)
		go func() {
			lock, err := ours.AcquireAll(s.Context(), keys)
			if err == nil {
				err = lock.Release()
			}
			served <- err
		}()
		stands := func() bool {
			nodes := 0
			for _, look := range s.looks {
				if look.ZCount(s.Context(), "ql:line:{"+keys[0]+"}", firstRank, "+inf").Val() > 0 {
					nodes++
				}
			}
			return nodes > five/2
		}
		s.eventually("who waits stands in line", stands)
		s.fails(failed(theirs.TryAcquireAll(s.Context(), keys[:2])), redlock.ErrTaken, "TryAcquireAll of keys for which another one waits")
		if lock, err := theirs.TryAcquire(s.Context(), keys[0]); err != nil {
			s.Errorf("TryAcquire of a single key for which somebody waits = %v, want the lock", err)
		} else if err := lock.Release(); err != nil {
			s.Error(err)
		}
		s.release(held)
		s.check(<-served, "AcquireAll")
	})
}

func TestReadersAndWriters(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.locker(redlock.WithFences()), s.locker(redlock.WithFences())
		writer, err := ours.Acquire(s.Context(), s.key)
		s.must(err)
		s.fails(failed(theirs.TryAcquireShared(s.Context(), s.key)), redlock.ErrTaken, "a reader beside a writer")
		reader, err := writer.Downgrade(s.Context())
		if err != nil {
			s.Fatalf("Downgrade: %v", err)
		}
		second, err := theirs.TryAcquireShared(s.Context(), s.key)
		if err != nil {
			s.Fatalf("a reader beside a reader: %v", err)
		}
		if reader.Fence() != writer.Fence() || second.Fence() < writer.Fence() {
			s.Errorf("behind the writer %d readers have %d and %d", writer.Fence(), reader.Fence(), second.Fence())
		}
		s.fails(failed(reader.TryUpgrade(s.Context())), redlock.ErrTaken, "TryUpgrade among readers")
		s.check(second.Extend(s.Context(), time.Minute), "Extend")
		s.confirm(second)
		s.release(second)
		next, err := reader.TryUpgrade(s.Context())
		for errors.Is(err, redlock.ErrContended) || errors.Is(err, redlock.ErrTaken) { // clean-ups and a minority's releases are on their way
			next, err = reader.TryUpgrade(s.Context())
		}
		if err != nil {
			s.Fatalf("TryUpgrade: %v", err)
		}
		if next.Fence() <= second.Fence() {
			s.Errorf("behind the reader %d the next writer has %d", second.Fence(), next.Fence())
		}
		s.confirm(next)
		s.release(next)
		s.eventuallyFree()
	})
}

func TestAWaitingWriterIsServedUnderAStreamOfReaders(t *testing.T) {
	onEach(t, func(s *site) {
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		var over sync.WaitGroup
		for _, locker := range []*redlock.Locker{s.locker(), s.locker()} {
			for range 8 {
				over.Go(func() {
					for ctx.Err() == nil {
						lock, err := locker.AcquireShared(ctx, s.key)
						if err != nil {
							if ctx.Err() == nil {
								s.Errorf("AcquireShared: %v", err)
							}
							return
						}
						if held, err := lock.Confirm(ctx); err == nil && !held {
							s.Error("a reader does not hold its lock")
						}
						_ = lock.Release()
					}
				})
			}
		}
		locker := s.locker()
		for range 5 {
			waits, stop := context.WithTimeout(ctx, patience)
			lock, err := locker.Acquire(waits, s.key)
			if err != nil {
				s.Errorf("a writer under a stream of readers: %v", err)
			} else if err := lock.Release(); err != nil {
				s.Errorf("Release: %v", err)
			}
			stop()
		}
		cancel()
		over.Wait()
		s.eventuallyFree()
	})
}

// The lease is long: what is left would be seen.
func TestReadersWhoseUpgradesFailLeaveNothing(t *testing.T) {
	onEach(t, func(s *site) {
		var over sync.WaitGroup
		for range 2 {
			locker := s.locker(redlock.WithTTL(long))
			over.Go(func() {
				for range 100 {
					reader, err := locker.AcquireShared(s.Context(), s.key)
					if err != nil {
						s.Errorf("AcquireShared: %v", err)
						return
					}
					release := reader.Release
					if writer, err := reader.TryUpgrade(s.Context()); err == nil {
						release = writer.Release
					}
					s.check(release(), "Release")
				}
			})
		}
		over.Wait()
		s.eventuallyFree()
	})
}
