package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

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
			lock, err := lockers[i].Acquire(s.Context(), key(i), redlock.WithTTL(time.Minute))
			if err != nil {
				s.Fatal(err)
			}
			held[i] = lock
		}
		for i, lock := range held {
			go func() {
				next, err := lockers[i].Acquire(lock.Context(), key(i+1), redlock.WithMaxWait(patience))
				if err == nil {
					err = next.Release(s.Context())
				}
				results <- outcome{i, errors.Join(err, lock.Release(s.Context()))}
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
