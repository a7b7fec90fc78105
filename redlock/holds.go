package redlock

import (
	"maps"
	"slices"
	"sync"
)

// holds are the locks that a Locker's users hold, for Close to end. A lost lock that nobody
// releases leaves within 1s: see [holds.look].
type holds struct {
	mu     sync.Mutex
	locks  map[holdName]*lease
	owns   map[string][]*lease // those with tokens of their users' own, by token
	closed bool
	sleep  suspendDetector
}

// A holdName is a lock's token, and the lock besides if several may share the token.
type holdName struct {
	token string
	own   *lease
}

func (l *lease) holdName() holdName {
	if l.attempt.Own {
		return holdName{l.attempt.Token, l}
	}
	return holdName{l.attempt.Token, nil}
}

// add adds l, unless the Locker is closed. attempt.Mu is held.
func (h *holds) add(l *lease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.locks == nil {
		h.locks = make(map[holdName]*lease)
	}
	if len(h.locks) == 0 {
		h.watch(l.locker.clock)
	}
	h.locks[l.holdName()] = l
	if l.attempt.Own {
		if h.owns == nil {
			h.owns = make(map[string][]*lease)
		}
		h.owns[l.attempt.Token] = append(h.owns[l.attempt.Token], l)
	}
	return true
}

func (h *holds) remove(l *lease) {
	h.mu.Lock()
	h.drop(l)
	h.mu.Unlock()
}

// drop is remove. h.mu is held.
func (h *holds) drop(l *lease) {
	delete(h.locks, l.holdName())
	if !l.attempt.Own {
		return
	}
	own := slices.DeleteFunc(h.owns[l.attempt.Token], func(other *lease) bool { return other == l })
	if h.owns[l.attempt.Token] = own; len(own) == 0 {
		delete(h.owns, l.attempt.Token)
	}
}

// twins returns the locks that have the key and the token of l, which is its user's own.
func (h *holds) twins(l *lease) (twins []*lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, other := range h.owns[l.attempt.Token] {
		if other != l && other.attempt.Key == l.attempt.Key {
			twins = append(twins, other)
		}
	}
	return twins
}

// with returns the lock that has a generated token, or nil.
func (h *holds) with(token string) *lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.locks[holdName{token, nil}]
}

// count is how many locks there are.
func (h *holds) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.locks)
}

// all returns the locks.
func (h *holds) all() []*lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.locks))
}

// close returns the locks, and refuses further ones.
func (h *holds) close() []*lease {
	h.mu.Lock()
	h.closed, h.sleep.on = true, false
	if h.sleep.timer != nil {
		h.sleep.timer.Stop()
	}
	h.mu.Unlock()
	return h.all()
}
