package integration

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// semaphore returns a semaphore of the site's key, over a Locker of its own.
func (s *site) semaphore(permits int, options ...redlock.Option) *redlock.Semaphore {
	s.Helper()
	sem, err := s.locker(options...).Semaphore(s.key, permits)
	if err != nil {
		s.Fatal(err)
	}
	return sem
}

// slot is what the nodes call a slot of the site's semaphore.
func (s *site) slot(i int) string { return fmt.Sprintf("ql:slot:{%s}%d", s.key, i) }

func TestSemaphore(t *testing.T) {
	onEach(t, func(s *site) {
		ours, theirs := s.semaphore(2, redlock.WithFences()), s.semaphore(2, redlock.WithFences())
		one, err := ours.TryAcquire(s.Context())
		must(s.T, err)
		two, err := theirs.TryAcquire(s.Context())
		must(s.T, err)
		if one.Slot() == two.Slot() {
			s.Fatalf("two permits have slot %d", one.Slot())
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
		must(s.T, s.looks[0].Del(s.Context(), s.slot(one.Slot()), "ql:permits:{"+s.key+"}").Err())
		for i, look := range s.looks {
			s.eventually(fmt.Sprintf("node %d has the permit and the number", i+1), func() bool {
				must(s.T, one.Extend(s.Context(), time.Minute))
				return look.Get(s.Context(), s.slot(one.Slot())).Val() == one.Token() && look.Get(s.Context(), "ql:permits:{"+s.key+"}").Val() == "2" &&
					look.PTTL(s.Context(), "ql:permits:{"+s.key+"}").Val() > 100*time.Second
			})
		}
		if held, err := one.Held(s.Context()); !held || err != nil {
			s.Errorf("Held = %v, %v, want true", held, err)
		}

		// A release of one process wakes another, and a slot that holds something else stays as it is.
		waiting := make(chan error, 1)
		go func() {
			p, err := ours.Acquire(s.Context(), redlock.WithMaxWait(patience))
			if err == nil && (p.Slot() != two.Slot() || p.Fence() <= two.Fence()) {
				err = fmt.Errorf("slot %d with fence %d came after slot %d with %d", p.Slot(), p.Fence(), two.Slot(), two.Fence())
			}
			if err == nil {
				err = p.Release(s.Context())
			}
			waiting <- err
		}()
		s.listeningFor(s.slot(1), 3) // the last one that is subscribed to
		must(s.T, two.Release(s.Context()))
		must(s.T, <-waiting)
		for _, look := range s.looks {
			// At a node that is late the waiter's lock and its release may still come behind those of two.
			s.eventually("a list is at the slot", func() bool { return look.RPush(s.Context(), s.slot(two.Slot()), "no lock").Err() == nil })
		}
		if _, err := ours.TryAcquire(s.Context()); !errors.Is(err, redlock.ErrTaken) {
			s.Errorf("TryAcquire of a slot that is a list: %v, want ErrTaken", err)
		}
		for _, look := range s.looks {
			if n := look.LLen(s.Context(), s.slot(two.Slot())).Val(); n != 1 {
				s.Errorf("a list at a slot has %d elements, want the one it had", n)
			}
			must(s.T, look.Del(s.Context(), s.slot(two.Slot())).Err())
		}
		must(s.T, one.Release(s.Context()))
	})
}

// Many processes and many waiters for three permits: never two holders of one slot, and everybody
// is served.
func TestSemaphoreContention(t *testing.T) {
	onEach(t, func(s *site) {
		const permits, processes, waiters, turns = 3, 4, 4, 5
		var group sync.WaitGroup
		var slots [permits]sync.Mutex
		for range processes {
			sem := s.semaphore(permits)
			for range waiters {
				group.Go(func() {
					for range turns {
						p, err := sem.Acquire(s.Context(), redlock.WithMaxWait(patience))
						if err != nil {
							s.Errorf("Acquire: %v", err)
							return
						}
						if !slots[p.Slot()].TryLock() {
							s.Errorf("two hold slot %d", p.Slot())
							return
						}
						slots[p.Slot()].Unlock()
						if err := p.Release(s.Context()); err != nil {
							s.Errorf("Release: %v", err)
						}
					}
				})
			}
		}
		group.Wait()
		for i := range permits {
			for _, look := range s.looks {
				s.eventually(fmt.Sprintf("slot %d is free", i), func() bool { return look.Exists(s.Context(), s.slot(i)).Val() == 0 })
			}
		}
	})
}

// Many processes want one to all of the permits: each slot has one holder, and everybody is served.
func TestSemaphoreWeights(t *testing.T) {
	onEach(t, func(s *site) {
		const permits, processes, waiters, turns = 5, 3, 4, 3
		var group sync.WaitGroup
		var slots [permits]sync.Mutex
		for i := range processes {
			sem := s.semaphore(permits, redlock.WithFences())
			for j := range waiters {
				group.Go(func() {
					for k := range turns {
						p, err := sem.AcquireN(s.Context(), 1+(i+2*j+3*k)%permits, redlock.WithMaxWait(patience))
						if err != nil {
							s.Errorf("AcquireN: %v", err)
							return
						}
						for _, slot := range p.Slots() {
							if !slots[slot].TryLock() {
								s.Errorf("two hold slot %d", slot)
								return
							}
						}
						if err := p.Extend(s.Context(), time.Minute); err != nil {
							s.Errorf("Extend: %v", err)
						}
						for _, slot := range p.Slots() {
							slots[slot].Unlock()
						}
						if err := p.Release(s.Context()); err != nil {
							s.Errorf("Release: %v", err)
						}
					}
				})
			}
			group.Go(func() {
				for range turns {
					p, err := sem.Acquire(s.Context(), redlock.WithMaxWait(patience))
					if err != nil {
						s.Errorf("Acquire: %v", err)
						return
					}
					if err := p.Release(s.Context()); err != nil {
						s.Errorf("Release: %v", err)
					}
				}
			})
		}
		group.Wait()
		for i := range permits {
			for _, look := range s.looks {
				s.eventually(fmt.Sprintf("slot %d is free", i), func() bool { return look.Exists(s.Context(), s.slot(i)).Val() == 0 })
			}
		}
		for _, look := range s.looks {
			s.eventually("no mark is left", func() bool { return look.Exists(s.Context(), "ql:wanted:{"+s.key+"}").Val() == 0 })
		}
	})
}

func TestSemaphoreWithoutScripts(t *testing.T) {
	onProcesses(t, "", func(t *testing.T, c client) {
		urls, _, _ := scriptlessNodes(t)
		nodes, err := c.open(urls...)
		must(t, err)
		locker, err := redlock.New(nodes, redlock.WithNodeTimeout(generous))
		must(t, err)
		defer func() { _ = locker.Close() }()
		sem, err := locker.Semaphore("pool", 2)
		must(t, err)
		for range 2 {
			if _, err := sem.Acquire(t.Context(), redlock.WithMaxWait(patience)); err == nil || !strings.Contains(err.Error(), "+eval") {
				t.Errorf("Acquire where scripts are forbidden: %v, want what to allow", err)
			}
		}
	})
}
