package redlock

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
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
	if l.hold.Own {
		return holdName{l.hold.Token, l}
	}
	return holdName{l.hold.Token, nil}
}

// add adds l, unless the Locker is closed. Its hold's mutex is held.
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
	if l.hold.Own {
		if h.owns == nil {
			h.owns = make(map[string][]*lease)
		}
		h.owns[l.hold.Token] = append(h.owns[l.hold.Token], l)
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
	if !l.hold.Own {
		return
	}
	own := slices.DeleteFunc(h.owns[l.hold.Token], func(other *lease) bool { return other == l })
	if h.owns[l.hold.Token] = own; len(own) == 0 {
		delete(h.owns, l.hold.Token)
	}
}

// twins returns the locks that have the token of l, which is its user's own, on one of its keys.
func (h *holds) twins(l *lease) (twins []*lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, other := range h.owns[l.hold.Token] {
		if other != l && slices.ContainsFunc(l.hold.Names(), other.hold.Has) {
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

// count is how many locks there are, and the age of the oldest.
func (h *holds) count(now clockdrift.Instant) (count int, oldest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.locks {
		oldest = max(oldest, now.Sub(l.began))
	}
	return len(h.locks), oldest
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

// wakeCheck is how often a Locker that holds locks checks whether the machine has slept.
const wakeCheck = time.Second

// A suspendDetector notices that the machine has slept: then timers stood still, and leases did
// not. One serves all locks of a Locker. It is guarded by holds.mu.
type suspendDetector struct {
	timer *time.Timer
	on    bool
	now   clockdrift.Instant // at the last check
	awake time.Time          // the same by Go's clock, which does not count sleep
}

// slept reports whether the machine has slept since the last check.
func (w *suspendDetector) slept(clock *clockdrift.Clock) bool {
	now, awake := clock.Fresh(), time.Now()
	slept := now.Sub(w.now) - awake.Sub(w.awake)
	w.now, w.awake = now, awake
	return slept > time.Millisecond // the two clocks are not read at one moment
}

// watch checks every second from now on, until nothing is held. h.mu is held.
func (h *holds) watch(clock *clockdrift.Clock) {
	w := &h.sleep
	if w.on {
		return
	}
	w.on = true
	w.slept(clock)
	if w.timer == nil {
		w.timer = time.AfterFunc(wakeCheck, func() { h.look(clock) })
	} else {
		w.timer.Reset(wakeCheck)
	}
}

// look removes locks that are over, gives forgotten ones back, and sets timers right if the machine
// has slept.
func (h *holds) look(clock *clockdrift.Clock) {
	h.mu.Lock()
	w := &h.sleep
	slept := w.slept(clock)
	var forgotten []*lease
	for _, l := range h.locks {
		switch {
		case l.hold.Drops(w.now): // a hold's mutex may be waiting for ours
			h.drop(l)
		case l.forgotten():
			forgotten = append(forgotten, l)
		}
	}
	if w.on = len(h.locks) > 0 && !h.closed; w.on {
		w.timer.Reset(wakeCheck)
	}
	h.mu.Unlock()
	for _, l := range forgotten {
		l.reclaim()
	}
	if slept {
		for _, l := range h.all() {
			l.arm(l.hold.Resume()) // the timers are set right
		}
	}
}
