package clockdrift

import (
	"math"
	"time"
)

// leases are those that a node's clock must not end early.
type leases struct {
	shortest, longest time.Duration
	factor            float64
}

// counted is how coarsely a server counts a key's time to live, which [Fixed] has room for.
const counted = time.Millisecond

// allows is by how much the node's clock may gain on ours in so long a time without any
// lease ending early at the node: the drift allowance of the shortest lease that this may
// be most of.
func (l *leases) allows(d time.Duration) time.Duration {
	return Allowance(max(d, l.shortest), l.factor) - counted
}

// Guard makes the estimator keep readings for so long that [Estimator.Excess] can tell
// whether the node's clock ended leases early, from the shortest to the longest that count,
// of which [Allowance] takes off this factor. Call it before the first sample.
func (e *Estimator) Guard(shortest, longest time.Duration, factor float64) {
	e.leases = leases{min(shortest, longest), longest, factor}
}

// Period is how often the clock has to be read for [Estimator.Excess] to be of use: so
// often that what drift can hide between two readings is an eighth of what the shortest
// lease allows for. For leases of 10s and the usual factor and rate that is 12.6s.
func (e *Estimator) Period() time.Duration {
	return time.Duration(float64(e.leases.allows(0)) / 8 / e.rate)
}

// Excess bounds by how much the node's clock may have gained on ours beyond what leases
// allow for, between any moment of the past longest lease and the last sample. At 0 or
// less, no lease that began in that time can have ended early by the clock that the
// sample shows. Of the time before the first sample it says nothing.
//
// lasts is until when it stays above 0 at the least, however sharp later samples are:
// because the clock was not read for too long, or did gain so much. It is 0 if the last
// sample is merely too blurred. Then read the clock once more.
//
// What it assumes: between two readings that are kept the clock drifts by at most the
// estimator's rate, and is set in one direction only. A clock that is set and set back
// before it is read again is not seen.
func (e *Estimator) Excess() (excess time.Duration, lasts Instant) {
	v := e.last
	excess = math.MinInt64
	for i := range e.readings {
		next := &v
		if i+1 < len(e.readings) {
			next = &e.readings[i+1]
		}
		age := v.sent.Sub(next.received)
		if age > e.leases.longest {
			continue // no such lease is as old as the end of this gap
		}
		r := &e.readings[i]
		gap := max(0, next.received.Sub(r.sent))
		lowest := time.Duration(sub(int64(min(r.floor, next.floor)), e.spread(0, Instant(gap))))
		allowed := int64(e.leases.allows(age))
		over := sub(sub(int64(v.ceiling), int64(lowest)), allowed)
		excess = max(excess, time.Duration(over))
		if sub(sub(int64(v.floor), int64(lowest)), allowed) > 0 {
			lasts = max(lasts, next.received.Add(e.leases.longest))
		}
	}
	return excess, lasts
}
