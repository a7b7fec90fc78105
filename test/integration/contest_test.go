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
			won, refused, after := tryAtOnce(s, lockers)
			took = append(took, after...)
			for _, err := range refused {
				if !errors.Is(err, redlock.ErrTaken) {
					s.Errorf("round %d: %v", round+1, err)
				}
			}
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

// Four processes ask for a key at the same moment, while one of the nodes has just stopped. The others
// are a quorum, and settle it among them. The node time-out is far above what they take.
func TestFourProcessesTryAtTheSameMomentBesideANodeThatHasJustStopped(t *testing.T) {
	onEach(t, func(s *site) {
		rounds := 40
		if !s.kind.real {
			rounds = 5
		}
		var lockers []*redlock.Locker
		for range 4 {
			lockers = append(lockers, s.locker(redlock.WithNodeTimeout(2*time.Second)))
		}
		var took []time.Duration
		none := 0
		for round := range rounds {
			for _, locker := range lockers {
				s.warm(locker) // the stopped node is back
			}
			s.pause(4)
			won, refused, after := tryAtOnce(s, lockers)
			took = append(took, after...)
			if len(won) != 1 && (len(won) > 0 || none > 0) {
				s.Fatalf("round %d: %d of four got the key, and in %d rounds before nobody did, want one; the others: %v", round+1, len(won), none, refused)
			}
			for _, err := range refused {
				if taken := errors.Is(err, redlock.ErrTaken); taken != (len(won) == 1) {
					s.Errorf("round %d: beside %d who got the key: %v", round+1, len(won), err)
				}
			}
			if len(won) == 0 { // at most once, for one of them nearly always gets it
				none++
				s.resume(4)
				continue
			}
			if err := won[0].Release(s.Context()); err != nil {
				s.Errorf("round %d: Release: %v", round+1, err)
			}
			s.resume(4)
			s.eventuallyFree()
		}
		slices.Sort(took)
		s.Logf("%d rounds: somebody had the key after %v, 9 of 10 times after %v, at most after %v", rounds, took[len(took)/2], took[len(took)*9/10], took[len(took)-1])
	})
}

// tryAtOnce has all Lockers try for the site's key at one moment. It returns the locks that were had,
// and after how long each, and why the others were not.
func tryAtOnce(s *site, lockers []*redlock.Locker) (won []*redlock.Lock, refused []error, took []time.Duration) {
	var mu sync.Mutex
	var tries sync.WaitGroup
	start := make(chan struct{})
	var began time.Time
	for _, locker := range lockers {
		tries.Go(func() {
			<-start
			lock, err := locker.TryAcquire(s.Context(), s.key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = append(refused, err)
				return
			}
			took = append(took, time.Since(began))
			won = append(won, lock)
		})
	}
	began = time.Now()
	close(start)
	tries.Wait()
	return won, refused, took
}
