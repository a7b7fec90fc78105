package nodeclock

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// Bounds says that a duration lies between Low and High, both included.
type Bounds struct {
	Low, High time.Duration
}

// Mid is the middle, rounded down: off by at most half the width.
func (b Bounds) Mid() time.Duration {
	// The sum may be out of range, so this is its half without it: the common bits, and half of the bits
	// that differ.
	return b.Low&b.High + (b.Low^b.High)>>1
}

// sub returns a - b, and add a + b, or the longest Duration of its sign if that is out of range.
func sub(a, b time.Duration) time.Duration { return clockdrift.Instant(a).Sub(clockdrift.Instant(b)) }

func add(a, b time.Duration) time.Duration { return time.Duration(clockdrift.Instant(a).Add(b)) }
