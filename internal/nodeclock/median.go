package nodeclock

import (
	"slices"
	"time"
)

// Median returns bounds for the median of several clocks' offsets. With an odd
// number of clocks the median is the one in the middle, with an even number the
// mean of the two in the middle; ok is false if there is none.
//
// As long as fewer than half of the clocks are wrong, the median lies between two
// clocks that are right, however wrong the others are. So give it a quorum's
// offsets at least: of two, one wrong clock is half.
//
// The bounds are the median of all Low and the median of all High. They hold
// because a median never falls when one of its values rises.
func Median(offsets []Bounds) (median Bounds, ok bool) {
	if len(offsets) == 0 {
		return Bounds{}, false
	}
	lows := make([]time.Duration, 0, len(offsets))
	highs := make([]time.Duration, 0, len(offsets))
	for _, offset := range offsets {
		lows = append(lows, offset.Low)
		highs = append(highs, offset.High)
	}
	return Bounds{Low: middle(lows), High: middle(highs)}, true
}

func middle(values []time.Duration) time.Duration {
	slices.Sort(values)
	n := len(values)
	return Bounds{Low: values[(n-1)/2], High: values[n/2]}.Mid()
}
