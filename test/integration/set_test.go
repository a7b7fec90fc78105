package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
		count := 128 // they take a node, and the race detector, long on a busy machine
		if !s.kind.real {
			count = 16
		}
		options := []redlock.Option{redlock.WithFences(), redlock.WithTTL(long), redlock.WithNodeTimeout(patience)}
		ours, theirs := s.locker(options...), s.locker(options...)
		keys := s.set(count)
		middle := keys[count/2]
		single, err := theirs.Acquire(s.Context(), middle)
		s.must(err)
		_, err = ours.TryAcquireAll(s.Context(), keys)
		var refused *redlock.QuorumError
		if !errors.Is(err, redlock.ErrTaken) || !errors.As(err, &refused) ||
			!slices.ContainsFunc(refused.Votes, func(v redlock.Vote) bool { return v.Key == middle }) {
			s.Errorf("TryAcquireAll with one key of %d taken = %v, want ErrTaken that names it", len(keys), err)
		}
		s.must(single.Release())
		lock, err := ours.AcquireAll(s.Context(), keys)
		s.must(err)
		if lock.Fence() <= single.Fence() {
			s.Errorf("the fence %d is not above %d, of the holder of one key before", lock.Fence(), single.Fence())
		}
		for _, key := range []string{keys[0], middle, keys[count-1]} {
			s.fails(failed(theirs.TryAcquire(s.Context(), key)), redlock.ErrTaken, "TryAcquire of a key of the set")
		}
		s.confirm(lock)
		before := time.Now()
		if err := lock.Extend(s.Context(), 2*long); err != nil || lock.Until().Before(before.Add(2*long*9/10)) {
			s.Errorf("Extend = %v, until %v", err, lock.Until())
		}
		s.release(lock)
		next, err := theirs.TryAcquireAll(s.Context(), keys[count/2:][:4])
		if err != nil {
			s.Fatalf("TryAcquireAll after the release = %v", err)
		}
		if next.Fence() <= lock.Fence() {
			s.Errorf("the next fence %d is not above %d", next.Fence(), lock.Fence())
		}
		// Somebody puts a list in the place of one key.
		odd := keys[count/2+1]
		for _, look := range s.looks {
			s.eventually("the node has the key", func() bool { // if not of the acquire, of an extension
				s.must(next.Extend(s.Context(), 2*long))
				return look.Exists(s.Context(), odd).Val() == 1
			})
		}
		for _, look := range s.looks {
			_, err := look.TxPipelined(s.Context(), func(p redis.Pipeliner) error {
				p.Del(s.Context(), odd)
				return p.RPush(s.Context(), odd, "a list").Err()
			})
			s.must(err)
		}
		if err := next.Release(); !errors.Is(err, redlock.ErrLost) || !mentions(err, odd) {
			s.Errorf("Release of several keys, one of which is a list: %v, want ErrLost that names it", err)
		}
		_, err = ours.AcquireAll(s.Context(), keys[count/2:][:3])
		if !errors.Is(err, redlock.ErrNoQuorum) || !mentions(err, fmt.Sprintf("key %q", odd), "not a lock") {
			s.Errorf("AcquireAll of a list = %v, want an error at once that names the key", err)
		}
		for _, look := range s.looks {
			s.must(look.Del(s.Context(), odd).Err())
		}
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
		// A node that does not have the second reader may have granted it, and others may be late.
		if _, err := reader.TryUpgrade(s.Context()); !errors.Is(err, redlock.ErrTaken) && !errors.Is(err, redlock.ErrContended) {
			s.Errorf("TryUpgrade among readers = %v, want ErrTaken or ErrContended", err)
		}
		s.check(second.Extend(s.Context(), time.Minute), "Extend")
		s.confirm(second)
		s.release(second)
		next, err := upgrade(s.Context(), reader)
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
