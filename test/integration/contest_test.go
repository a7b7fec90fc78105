package integration

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// Five processes ask for a free key at the same moment. One of them gets it, and only then
// are the others told that it is held.
func TestFiveProcessesTryAtTheSameMoment(t *testing.T) {
	onEach(t, func(s *site) {
		rounds := 400
		if !s.kind.real {
			rounds = 50
		}
		var lockers []*redlock.Locker
		for range five {
			locker := s.locker()
			s.warm(locker)
			lockers = append(lockers, locker)
		}
		var took []time.Duration
		for round := range rounds {
			var mu sync.Mutex
			var won []*redlock.Lock
			var tries sync.WaitGroup
			start := make(chan struct{})
			var began time.Time
			for _, locker := range lockers {
				tries.Go(func() {
					<-start
					lock, err := locker.TryAcquire(s.Context(), s.key)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						took = append(took, time.Since(began))
						won = append(won, lock)
					case !errors.Is(err, redlock.ErrTaken):
						s.Errorf("round %d: %v", round+1, err)
					}
				})
			}
			began = time.Now()
			close(start)
			tries.Wait()
			if len(won) != 1 {
				s.Fatalf("round %d: %d of five got the key, want one", round+1, len(won))
			}
			if err := won[0].Release(s.Context()); err != nil {
				s.Errorf("round %d: Release: %v", round+1, err)
			}
			s.eventuallyFree()
		}
		slices.Sort(took)
		s.Logf("%d rounds: somebody had the key after %v, 99 of 100 times after %v", rounds, took[rounds/2], took[rounds*99/100])
	})
}
