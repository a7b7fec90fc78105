package integration

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestReadersAndWriters(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.locker(redlock.WithFences()), s.locker(redlock.WithFences())
		writer, err := ours.Acquire(s.Context(), s.key)
		if err != nil {
			s.Fatal(err)
		}
		if _, err := theirs.TryAcquireShared(s.Context(), s.key); !errors.Is(err, redlock.ErrTaken) {
			s.Errorf("a reader beside a writer: %v, want ErrTaken", err)
		}
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
		if _, err := reader.TryUpgrade(s.Context()); !errors.Is(err, redlock.ErrTaken) {
			s.Errorf("TryUpgrade among readers: %v, want ErrTaken", err)
		}
		if err := second.Extend(s.Context(), time.Minute); err != nil {
			s.Errorf("Extend: %v", err)
		}
		if held, err := second.Held(s.Context()); !held || err != nil {
			s.Errorf("Held = %v, %v", held, err)
		}
		if err := second.Release(s.Context()); err != nil {
			s.Errorf("Release: %v", err)
		}
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
		if held, err := next.Held(s.Context()); !held || err != nil {
			s.Errorf("Held of the writer = %v, %v", held, err)
		}
		if err := next.Release(s.Context()); err != nil {
			s.Errorf("Release: %v", err)
		}
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
						if held, err := lock.Held(ctx); err == nil && !held {
							s.Error("a reader does not hold its lock")
						}
						_ = lock.Release(context.WithoutCancel(ctx))
					}
				})
			}
		}
		locker := s.locker()
		for range 5 {
			waits, stop := context.WithTimeout(ctx, 10*time.Second)
			lock, err := locker.Acquire(waits, s.key)
			if err != nil {
				s.Errorf("a writer under a stream of readers: %v", err)
			} else if err := lock.Release(ctx); err != nil {
				s.Errorf("Release: %v", err)
			}
			stop()
		}
		cancel()
		over.Wait()
		s.eventuallyFree()
	})
}

// The lease is longer than the site's patience: what is left would be seen.
func TestReadersWhoseUpgradesFailLeaveNothing(t *testing.T) {
	onEach(t, func(s *site) {
		var over sync.WaitGroup
		for range 2 {
			locker := s.locker(redlock.WithTTL(time.Minute))
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
					if err := release(s.Context()); err != nil {
						s.Errorf("Release: %v", err)
					}
				}
			})
		}
		over.Wait()
		s.eventuallyFree()
	})
}
