package clockdrift

import "time"

// Bounds says that a duration is not known better than to lie between Low and
// High, both included.
type Bounds struct {
	Low, High time.Duration
}

// Mid is the middle, rounded down: off by at most half the width.
func (b Bounds) Mid() time.Duration {
	// The sum may be out of range, so this is its half without it: the bits that
	// both have, and half of those that only one has.
	return b.Low&b.High + (b.Low^b.High)>>1
}

// Width is how far Low and High are apart, or the longest Duration if that is out
// of range.
func (b Bounds) Width() time.Duration {
	return time.Duration(sub(int64(b.High), int64(b.Low)))
}
