package nodeclock

import (
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// leases are the leases that a node's clock must not end early.
type leases struct {
	shortest, longest time.Duration
	factor            float64
}

// counted is the unit in which a server counts a key's time to live; [clockdrift.Allowance] has room for it.
const counted = time.Millisecond

// allows is by how much the node's clock may gain on ours in this time without ending any lease early at the
// node: the drift allowance of the shortest lease that the time may be most of.
func (l *leases) allows(d time.Duration) time.Duration {
	return clockdrift.Allowance(max(d, l.shortest), l.factor) - counted
}

// Guard makes the estimator keep readings for so long that [Estimator.Excess] can tell whether the node's
// clock ended leases early, between the shortest and the longest lease, of which [clockdrift.Allowance] takes off this
// factor. Call it before the first sample.
func (e *Estimator) Guard(shortest, longest time.Duration, factor float64) {
	e.leases = leases{min(shortest, longest), longest, factor}
}

// Period is how often the clock has to be read for [Estimator.Excess] to be of use: the drift that may hide
// between two readings is then an eighth of the shortest lease's allowance. For leases of 10s and the usual
// factor and rate it is 12.6s.
func (e *Estimator) Period() time.Duration {
	return time.Duration(float64(e.leases.allows(0)) / 8 / e.rate)
}

// Excess bounds by how much the node's clock may have gained on ours beyond the leases' allowance, between
// any moment of the past longest lease and the last sample. At 0 or less, no lease that began in that time
// can have ended early by the sample's clock. It says nothing of the time before the first sample.
//
// lasts is until when the excess stays above 0 at the least, however sharp later samples are: because the
// clock was not read for too long, or did gain so much. It is 0 if the last sample is merely too blurred.
// Then read the clock once more.
//
// Excess assumes: between two kept readings the clock drifts by at most the estimator's rate, and is set in
// one direction only. A clock that is set and set back between two readings is not seen.
func (e *Estimator) Excess() (excess time.Duration, lasts clockdrift.Instant) {
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
		lowest := sub(min(r.floor, next.floor), e.spread(0, clockdrift.Instant(gap)))
		allowed := e.leases.allows(age)
		excess = max(excess, sub(sub(v.ceiling, lowest), allowed))
		if sub(sub(v.floor, lowest), allowed) > 0 {
			lasts = max(lasts, next.received.Add(e.leases.longest))
		}
	}
	return excess, lasts
}
