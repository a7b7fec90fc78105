package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// wakeCheck is how often a Locker that holds locks looks whether the machine has slept.
const wakeCheck = time.Second

// A suspendDetector finds out whether the machine has slept, while which timers stand still
// and leases do not. It is one for all locks of a Locker, and guarded by holds.mu.
type suspendDetector struct {
	timer *time.Timer
	on    bool
	now   clockdrift.Instant // at the last look
	awake time.Time          // the same by Go's clock, which does not count sleep
}

// slept reports whether the machine has slept since the last look.
func (w *suspendDetector) slept(clock *clockdrift.Clock) bool {
	now, awake := clock.Fresh(), time.Now()
	slept := now.Sub(w.now) - awake.Sub(w.awake)
	w.now, w.awake = now, awake
	return slept > time.Millisecond // less is the time between two readings
}

// watch looks from now on, once a second, until nothing is held. h.mu is held.
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

// look ends what is over, which leaves, and sets timers right if the machine has slept.
func (h *holds) look(clock *clockdrift.Clock) {
	h.mu.Lock()
	w := &h.sleep
	slept := w.slept(clock)
	for name, l := range h.locks {
		// The holder of an attempt's mutex may be waiting for ours.
		if l.attempt.Mu.TryLock() {
			if l.check(w.now); l.ended != nil {
				delete(h.locks, name)
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

// resume sets the lock's timers right after a sleep, and ends the hold if its time was
// up meanwhile.
func (l *Lock) resume() {
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
