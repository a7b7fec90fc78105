package clockdrift

import (
	"math"
	"time"
)

// DefaultFactor is the share of a TTL that is given up to drift: one hundredth.
// It is generous: crystals are off by less than 0.01 %, and NTP usually slews a
// clock by at most 0.05 %. It does not cover a time service that was allowed to
// slew by more than the factor, and no factor covers a clock that is stepped.
const DefaultFactor = 0.01

// fixed is given up whatever the TTL: 1ms because servers count a key's time
// to live in whole milliseconds, and 1ms so that a short TTL has some room too.
const fixed = 2 * time.Millisecond

// Allowance is how much of ttl may not be counted upon, because the clocks of the
// nodes and ours drift apart while it runs: ttl × factor + 2ms, rounded up to the
// nanosecond. The usual factor is [DefaultFactor].
//
// It is at least 2ms. A ttl or factor below 0 counts as 0. What is too large for
// a Duration, and a factor that is not a number, gives the largest Duration, which
// leaves nothing of any lease.
//
// The description of Redlock
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/)
// subtracts a CLOCK_DRIFT, to make up for clocks that run at slightly different
// speeds, and leaves its size open. The reference implementation, redlock-rb, made
// it one hundredth of the TTL and 2ms, and others have followed.
func Allowance(ttl time.Duration, factor float64) time.Duration {
	share := math.Ceil(float64(max(ttl, 0)) * max(factor, 0))
	if share < float64(math.MaxInt64) { // false for NaN as well
		return time.Duration(add(int64(share), int64(fixed)))
	}
	return math.MaxInt64
}
