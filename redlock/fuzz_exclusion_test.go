package redlock

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A register knows who holds what, as an onlooker sees it who knows all processes.
type register struct {
	t *testing.T

	mu   sync.Mutex
	held map[*Lock]bool
	last map[string]int64 // the greatest fence that was had, by key
}

func newRegister(t *testing.T) *register {
	return &register{t: t, held: map[*Lock]bool{}, last: map[string]int64{}}
}

// asks is told before a lock on the key is asked for, and returns what its fence must beat.
func (r *register) asks(key string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[key]
}

// has is told of a lock that was had.
func (r *register) has(lock *Lock, before int64) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.held {
		switch {
		case !other.Valid():
			delete(r.held, other)
		case other.Key() == lock.Key() && lock.Valid():
			r.t.Errorf("%q is held twice: %v and %v", lock.Key(), other.Votes(), lock.Votes())
		}
	}
	r.held[lock] = true
	if fence := lock.Fence(); fence != 0 {
		if fence <= before {
			r.t.Errorf("%q was had with the fence %d, and before with %d", lock.Key(), fence, before)
		}
		r.last[lock.Key()] = max(r.last[lock.Key()], fence)
	}
}

// gives is told before a lock is released or left to its deadline.
func (r *register) gives(lock *Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, lock)
}

// about makes lies those of the first few nodes.
func about(few byte, lies []byte) []byte {
	if few == 0 {
		return nil
	}
	lies = slices.Clone(lies)
	for i := 0; i+2 < len(lies); i += 3 {
		what, who := lies[i]/mostLiars, lies[i]%mostLiars
		lies[i] = what*mostLiars + who%few
	}
	return lies
}

// poisoned reports whether a lie about a clock or a counter has brought the fences of the key
// near their end, where they stay until they have been idle.
func (tr *trial) poisoned() bool {
	for _, n := range tr.nodes {
		if n.accepted() > protocol.MaxFence/2 {
			return true
		}
	}
	return false
}

// FuzzExclusion lets a minority of the nodes answer anything, except that somebody got what
// he did not get: a node that gives one key to two is not to be outvoted. No key has two
// holders, and the fences of its holders grow. As soon as all nodes say the truth again,
// the locks are to be had.
func FuzzExclusion(f *testing.F) {
	for settings := range byte(4) {
		for about := range told {
			f.Add(byte(1), settings, byte(about), []byte{
				byte(about * mostLiars), byte(about) | lieForever, 7, byte(about * mostLiars), byte(about) | lieRuns, 3, byte(about * mostLiars), byte(about+5) | lieRuns, 60,
			})
		}
	}
	f.Fuzz(func(t *testing.T, size, settings, kind byte, lies []byte) {
		synctest.Test(t, func(t *testing.T) {
			few := size % 3
			tr := newTrial(t, 2*few, settings|trialFences, kind, about(few, lies))
			for _, n := range tr.nodes {
				n.fair = true
			}
			theirs := tr.another()
			r := newRegister(t)
			var contenders sync.WaitGroup
			for i, locker := range []*Locker{tr.locker, theirs, tr.locker, theirs, tr.locker} {
				contenders.Go(func() {
					for round := range 4 {
						before := r.asks("k")
						lock := tr.acquire(locker)
						if lock == nil {
							continue
						}
						r.has(lock, before)
						switch (i + round) % 4 {
						case 0:
							time.Sleep(trialTTL / 2)
							_ = lock.Extend(t.Context(), trialTTL) // it may fail
							time.Sleep(trialTTL)
						case 1:
							time.Sleep(time.Second)
						case 2:
							time.Sleep(trialTTL) // it is lost
						}
						r.gives(lock)
						tr.release(lock)
					}
				})
			}
			contenders.Wait()
			for _, n := range tr.nodes {
				n.tellTruth()
			}
			if !tr.poisoned() {
				time.Sleep(2 * trialTTL) // for a quarantine, and leases of which nobody knows
				for _, locker := range []*Locker{tr.locker, theirs} {
					before := r.asks("k")
					if lock := tr.acquire(locker); lock == nil {
						t.Error("all nodes say the truth, and the lock is not to be had")
					} else {
						r.has(lock, before)
						r.gives(lock)
						tr.release(lock)
					}
				}
			}
			tr.end(tr.locker, theirs)
		})
	})
}
