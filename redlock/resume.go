package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

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

// look removes locks that are over, and sets timers right if the machine has slept.
func (h *holds) look(clock *clockdrift.Clock) {
	h.mu.Lock()
	w := &h.sleep
	slept := w.slept(clock)
	for _, l := range h.locks {
		// The goroutine that has an attempt's mutex may be waiting for ours.
		if l.attempt.Mu.TryLock() {
			if l.check(w.now); l.ended != nil {
				h.drop(l)
			}
			l.attempt.Mu.Unlock()
		}
	}
	if w.on = len(h.locks) > 0 && !h.closed; w.on {
		w.timer.Reset(wakeCheck)
	}
	h.mu.Unlock()
	if slept {
		for _, l := range h.all() {
			l.resume()
		}
	}
}

// resume sets the lock's timers right after a sleep, and ends the hold if its deadline has passed.
func (l *lease) resume() {
	now := l.observe()
	defer l.attempt.Mu.Unlock()
	if l.ended != nil {
		return
	}
	if l.ctx != nil {
		l.timer.Reset(l.until.Sub(now))
	}
	if l.renewal != nil {
		l.renewal.hurry(now)
	}
}
