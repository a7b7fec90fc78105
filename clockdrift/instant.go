package clockdrift

import (
	"math"
	"time"
)

// Instant is a reading of a [Clock]: the time since that clock was made, sleep
// included. Instants of one clock are compared by < and >; those of two clocks
// have nothing to do with each other.
type Instant time.Duration

// Add returns the instant d after t, or the last (or first) one there is if that
// is out of range, some 292 years away.
func (t Instant) Add(d time.Duration) Instant {
	return Instant(add(int64(t), int64(d)))
}

// Sub returns the time from u to t, or the longest Duration of its sign if it is
// out of range.
func (t Instant) Sub(u Instant) time.Duration {
	return time.Duration(sub(int64(t), int64(u)))
}

// String shows the instant as the time since its clock was made: "1m2.5s".
func (t Instant) String() string {
	return time.Duration(t).String()
}

// Deadline is when a lease ends for sure that was asked for at start, for ttl:
// start + ttl − [Allowance](ttl, factor). What is left of it, its validity, is
//
//	Deadline(start, ttl, factor).Sub(now)
//
// and the lease holds only while that is above 0. A ttl of a few milliseconds has
// its deadline before its start.
//
// Take start before the first byte of the request leaves, for a node may run the
// request at any moment after that. It may come from [Clock.Now]; now has to come
// from [Clock.Fresh].
func Deadline(start Instant, ttl time.Duration, factor float64) Instant {
	// The difference is taken first: start + ttl may be out of range where the
	// deadline is not.
	return start.Add(time.Duration(sub(int64(ttl), int64(Allowance(ttl, factor)))))
}

// add and sub stop at the ends of the range instead of wrapping around: a lease of
// 292 years must not end in the past.

func add(a, b int64) int64 {
	sum := a + b
	switch {
	case b > 0 && sum < a:
		return math.MaxInt64
	case b < 0 && sum > a:
		return math.MinInt64
	}
	return sum
}

func sub(a, b int64) int64 {
	diff := a - b
	switch {
	case b < 0 && diff < a:
		return math.MaxInt64
	case b > 0 && diff > a:
		return math.MinInt64
	}
	return diff
}
