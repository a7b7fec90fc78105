package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// semaphore returns a semaphore of the site's key, over a Locker of its own.
func (s *site) semaphore(permits int, options ...redlock.Option) *redlock.Semaphore {
	s.Helper()
	sem, err := s.locker(options...).Semaphore(s.key, permits)
	s.must(err)
	return sem
}

// slot is what the nodes call a slot of the site's semaphore.
func (s *site) slot(i int) string { return fmt.Sprintf("ql:slot:{%s}%d", s.key, i) }

func TestSemaphore(t *testing.T) {
	onEach(t, func(s *site) {
		options := []redlock.Option{redlock.WithFences(), redlock.WithTTL(40 * time.Second)} // a busy machine takes its time
		ours, theirs := s.semaphore(2, options...), s.semaphore(2, options...)
		one, err := ours.TryAcquire(s.Context())
		must(s.T, err)
		two, err := theirs.TryAcquire(s.Context())
		must(s.T, err)
		if one.Slots()[0] == two.Slots()[0] {
			s.Fatalf("two permits have slot %d", one.Slots()[0])
		}
		for _, sem := range []*redlock.Semaphore{ours, theirs} {
			if p, err := sem.TryAcquire(s.Context()); !errors.Is(err, redlock.ErrTaken) {
				s.Errorf("a third of two permits: %v, %v, want ErrTaken", p, err)
			}
		}
		other := s.locker()
		three, err := other.Semaphore(s.key, 3)
		must(s.T, err)
		if _, err := three.TryAcquire(s.Context()); !errors.Is(err, redlock.ErrPermits) || !strings.Contains(err.Error(), "counts 3, and others 2") {
			s.Errorf("a client that counts three permits: %v, want ErrPermits with both numbers", err)
		}

		must(s.T, other.Close()) // or a late command of it would count 3 at a node that has forgotten

		// A node forgets all, and an extension gives it back: the first one that comes behind the
		// tries above, and what clears them.
		must(s.T, s.looks[0].Del(s.Context(), s.slot(one.Slots()[0]), "ql:permits:{"+s.key+"}").Err())
		for i, look := range s.looks {
			s.eventually(fmt.Sprintf("node %d has the permit and the number", i+1), func() bool {
				must(s.T, one.Extend(s.Context(), time.Minute))
				return look.Get(s.Context(), s.slot(one.Slots()[0])).Val() == one.Token() && look.Get(s.Context(), "ql:permits:{"+s.key+"}").Val() == "2" &&
					look.PTTL(s.Context(), "ql:permits:{"+s.key+"}").Val() > 100*time.Second
			})
		}
		s.confirm(one)

		// A release of one process wakes another, and a slot that holds something else stays as it
		// is.
		waiting := make(chan error, 1)
		go func() {
			p, err := ours.Acquire(s.Context(), redlock.WithMaxWait(patience))
			if err == nil && (p.Slots()[0] != two.Slots()[0] || p.Fence() <= two.Fence()) {
				err = fmt.Errorf("slot %d with fence %d came after slot %d with %d", p.Slots()[0], p.Fence(), two.Slots()[0], two.Fence())
			}
			if err == nil {
				err = p.Release()
			}
			waiting <- err
		}()
		s.listening(s.slot(1), 3) // the last one that is subscribed to
		must(s.T, two.Release())
		must(s.T, <-waiting)
		for _, look := range s.looks {
			s.eventually("the slot is free, and stays so: the waiter's try and its release may come late", func() bool {
				return look.RPush(s.Context(), s.slot(two.Slots()[0]), "no lock").Err() == nil
			})
		}
		s.fails(failed(ours.TryAcquire(s.Context())), redlock.ErrTaken, "TryAcquire of a slot that is a list")
		for _, look := range s.looks {
			if n := look.LLen(s.Context(), s.slot(two.Slots()[0])).Val(); n != 1 {
				s.Errorf("a list at a slot has %d elements, want the one it had", n)
			}
			must(s.T, look.Del(s.Context(), s.slot(two.Slots()[0])).Err())
		}
		must(s.T, one.Release())
		both, err := theirs.AcquireN(s.Context(), 2, redlock.WithMaxWait(patience))
		must(s.T, err)
		s.confirm(both)
		s.fails(failed(ours.TryAcquire(s.Context())), redlock.ErrTaken, "TryAcquire where another has all permits")
		must(s.T, both.Release())
	})
}
