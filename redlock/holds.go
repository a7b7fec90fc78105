package redlock

import (
	"sync"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// holds are the locks that a Locker's users hold, for Close to end. A lock that is
// never released leaves at one of the sweeps that growth brings.
type holds struct {
	mu     sync.Mutex
	locks  map[*Lock]struct{}
	sweep  int // at this size
	closed bool
}

const firstSweep = 1024

// add takes l in, unless the Locker is closed. The claim's mutex is held.
func (h *holds) add(l *Lock) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.locks == nil {
		h.locks, h.sweep = make(map[*Lock]struct{}), firstSweep
	}
	if len(h.locks) >= h.sweep {
		now := l.claim.locker.clock.Now()
		for old := range h.locks {
			// The lock of a claim may be waited for by its holder for us.
			if old.claim.mu.TryLock() {
				if old.check(now); old.ended != nil {
					delete(h.locks, old)
				}
				old.claim.mu.Unlock()
			}
		}
		h.sweep = max(firstSweep, 2*len(h.locks))
	}
	h.locks[l] = struct{}{}
	return true
}

func (h *holds) remove(l *Lock) {
	h.mu.Lock()
	delete(h.locks, l)
	h.mu.Unlock()
}

// close returns the locks, and takes no more in.
func (h *holds) close() []*Lock {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	locks := make([]*Lock, 0, len(h.locks))
	for l := range h.locks {
		locks = append(locks, l)
	}
	return locks
}

// spentTokens are users' own tokens that were released. A late retry of the request
// that had one would take a lock that nobody will release.
type spentTokens struct {
	mu    sync.Mutex
	until map[string]clockdrift.Instant
	sweep int
}

// add refuses token until the instant.
func (s *spentTokens) add(token string, until, now clockdrift.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until, s.sweep = make(map[string]clockdrift.Instant), firstSweep
	}
	if len(s.until) >= s.sweep {
		for old, end := range s.until {
			if now >= end {
				delete(s.until, old)
			}
		}
		s.sweep = max(firstSweep, 2*len(s.until))
	}
	s.until[token] = until
}

// has reports whether token is refused.
func (s *spentTokens) has(token string, now clockdrift.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now < s.until[token]
}
