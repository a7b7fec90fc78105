package node

import "time"

// A window says how many batches may be out at a node at once: 1 + round trip / 150µs, at most 8.
// One at a time is right where the node is near: what gathers meanwhile makes the next batch
// larger. Where it is far, a caller would wait for the reply to somebody else's batch before its
// own left. Nobody waits where a quorum of the nodes is nearer, so the step is longer there: each
// batch costs all callers processor time.
//
// The round trip is the smallest of late, for a batch's own size and a busy node only add to the
// distance.
type window struct {
	least, previous time.Duration // of this period and the one before; 0: none yet
	batches         int           // in this period
}

// The window's step, that at a spare node, its most batches, and the batches after which the round
// trip is forgotten.
const (
	windowStep   = 150 * time.Microsecond
	spareStep    = 2 * time.Millisecond
	MaxWindow    = 8
	WindowPeriod = 64
)

// note takes in the round trip of a batch.
func (w *window) note(trip time.Duration) {
	if w.least == 0 || trip < w.least {
		w.least = max(trip, 1)
	}
	if w.batches++; w.batches == WindowPeriod {
		w.previous, w.least, w.batches = w.least, 0, 0
	}
}

// trip is the smallest round trip of late, or 0.
func (w *window) trip() time.Duration {
	if w.least == 0 || w.previous != 0 && w.previous < w.least {
		return w.previous
	}
	return w.least
}

// size is how many batches may be out.
func (w *window) size(step time.Duration) int { return min(1+int(w.trip()/step), MaxWindow) }
