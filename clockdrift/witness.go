package clockdrift

import (
	"sync"
	"time"
)

// The wall clock may gain so much on the monotonic one without a sleep: a fixed part, for steps of a time
// service that are too small to matter, and a share of the time in between, for its slewing of one clock and
// not of the other.
const (
	witnessStep  = 100 * time.Millisecond
	witnessShare = 1000
)

// witness infers sleep from a wall clock that has run ahead of the monotonic one. It compares neighbouring
// readings: compared with the first reading, a slew of 0.05 % would add up to a sleep within minutes.
type witness struct {
	mu              sync.Mutex // held for arithmetic only, and never in Clock.Now's usual path
	begun           bool
	origin          time.Time
	monotonic, wall time.Duration // the last reading
	total           time.Duration
}

func (w *witness) slept() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.begun {
		w.begun, w.origin = true, now
	}
	// Round strips the monotonic part, so that the second difference is the wall's.
	return w.see(now.Sub(w.origin), now.Round(0).Sub(w.origin.Round(0)))
}

// see takes a reading of both clocks, each as the time since the first, and returns the sleep found so far.
func (w *witness) see(monotonic, wall time.Duration) time.Duration {
	passed := time.Duration(sub(int64(monotonic), int64(w.monotonic)))
	shown := time.Duration(sub(int64(wall), int64(w.wall)))
	ahead := time.Duration(sub(int64(shown), int64(passed)))
	if ahead > witnessStep+passed/witnessShare {
		w.total = time.Duration(add(int64(w.total), int64(ahead)))
	}
	w.monotonic, w.wall = monotonic, wall
	return w.total
}
