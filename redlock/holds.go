package redlock

import (
	"maps"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// holds are the locks that a Locker's users hold, for Close to end. A lock that is
// lost and never released leaves within a second: see [holds.look].
type holds struct {
	mu     sync.Mutex
	locks  map[holdName]*Lock
	closed bool
	sleep  sleepWatch
}

// A holdName is a lock's token; of a token of the user's own, with which he may hold
// several, the lock besides.
type holdName struct {
	token string
	own   *Lock
}

func (l *Lock) holdName() holdName {
	if l.claim.own {
		return holdName{l.claim.token, l}
	}
	return holdName{l.claim.token, nil}
}

// add takes l in, unless the Locker is closed. The claim's mutex is held.
func (h *holds) add(l *Lock) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.locks == nil {
		h.locks = make(map[holdName]*Lock)
	}
	if len(h.locks) == 0 {
		h.watch(l.claim.locker.clock)
	}
	h.locks[l.holdName()] = l
	return true
}

func (h *holds) remove(l *Lock) {
	h.mu.Lock()
	delete(h.locks, l.holdName())
	h.mu.Unlock()
}

// with returns the lock that has a token of our making, or nil.
func (h *holds) with(token string) *Lock {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.locks[holdName{token, nil}]
}

// all returns the locks.
func (h *holds) all() []*Lock {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.locks))
}

// close returns the locks, and takes no more in.
func (h *holds) close() []*Lock {
	h.mu.Lock()
	h.closed, h.sleep.on = true, false
	if h.sleep.timer != nil {
		h.sleep.timer.Stop()
	}
	h.mu.Unlock()
	return h.all()
}

// spentTokens are users' own tokens that were released. A late retry of the request
// that had one would take a lock that nobody will release.
type spentTokens struct {
	mu    sync.Mutex
	until map[string]clockdrift.Instant
	sweep int // at this size
}

const firstSweep = 1024

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
