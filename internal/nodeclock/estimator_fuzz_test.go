package nodeclock_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
)

// nodeClock is a simulated clock whose speed changes at will within the rate. Its
// drift is kept in millionths of a nanosecond, so that nothing is rounded.
type nodeClock struct {
	now   clockdrift.Instant
	base  time.Duration
	drift int64
	rng   *rand.Rand
}

// pass lets time pass, at a speed that is off by at most 1000 ppm.
func (c *nodeClock) pass(d clockdrift.Instant) {
	ppm := c.rng.Int64N(2001) - 1000
	if c.rng.IntN(4) == 0 {
		ppm = 1000 * (1 - 2*c.rng.Int64N(2)) // at the limit
	}
	c.now += d
	c.drift += int64(d) * ppm
}

func (c *nodeClock) read() time.Time {
	down := c.drift / 1_000_000
	if c.drift%1_000_000 < 0 {
		down--
	}
	return time.Unix(0, int64(c.now)+int64(c.base)+down).Truncate(time.Microsecond)
}

func (c *nodeClock) within(offset nodeclock.Bounds) bool {
	return int64(offset.Low-c.base)*1_000_000 <= c.drift && c.drift <= int64(offset.High-c.base)*1_000_000
}

// delay is between a microsecond and a second, of any order of magnitude.
func (c *nodeClock) delay() clockdrift.Instant {
	return microsecond << c.rng.IntN(20) * clockdrift.Instant(1+c.rng.IntN(1000)) / 1000
}

// FuzzEstimator samples a simulated clock over a network of any delay. The bounds
// hold, drift is never told as a step, and a step that is larger than what is
// uncertain always is.
func FuzzEstimator(f *testing.F) {
	f.Add(uint64(1), uint8(100), uint8(0))
	f.Add(uint64(2), uint8(200), uint8(10))
	f.Add(uint64(3), uint8(5), uint8(2))
	f.Fuzz(func(t *testing.T, seed uint64, samples, stepEvery uint8) {
		rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a simulation has to be repeatable
		node := &nodeClock{base: time.Duration(rng.Int64N(int64(100 * 365 * 24 * time.Hour))), rng: rng}
		estimator := newEstimator(t)
		drifts := map[clockdrift.Instant]int64{} // when samples left and arrived
		for i := range int(samples) {
			node.pass(node.delay() * 10)

			sent := node.now
			drifts[sent] = node.drift
			there, back := node.delay(), node.delay()
			var jump time.Duration
			before, known := estimator.Offset(sent)
			if known && stepEvery > 0 && i%int(stepEvery) == 0 {
				roundTrip := time.Duration(there + back)
				uncertain := before.Width() + roundTrip + roundTrip/1000 + 2*time.Microsecond
				jump = uncertain + time.Duration(1+rng.Int64N(1<<rng.IntN(40)))
				if rng.IntN(2) == 0 {
					jump = -jump
				}
			}
			node.pass(there)
			node.base += jump
			reading := node.read()
			node.pass(back)

			step, stepped := estimator.Add(nodeclock.Sample{Sent: sent, Received: node.now, Node: reading})
			if stepped != (jump != 0) {
				t.Fatalf("sample %d, after a step of %v: told as a step: %t", i, jump, stepped)
			}
			if stepped && (jump < step.Low || jump > step.High) {
				t.Fatalf("sample %d: a step of %v is told to be %v to %v", i, jump, step.Low, step.High)
			}
			drifts[node.now] = node.drift

			offset, ok := estimator.Offset(node.now)
			if !ok || !node.within(offset) {
				t.Fatalf("sample %d: the offset is %v to %v, want bounds around %v and %dns", i, offset.Low, offset.High, node.base, node.drift/1_000_000)
			}
			if first, last, ok := estimator.Span(); ok {
				mean := float64(drifts[last]-drifts[first]) / float64(last-first)
				if low, high, ok := estimator.Drift(); !ok || mean < low-1e-6 || mean > high+1e-6 {
					t.Fatalf("sample %d: the drift is %v to %v ppm, %t, want bounds around %v", i, low, high, ok, mean)
				}
			}
		}
		node.pass(node.delay() * 1000)
		if offset, ok := estimator.Offset(node.now); ok && !node.within(offset) {
			t.Fatalf("later: the offset is %v to %v, want bounds around %v and %dns", offset.Low, offset.High, node.base, node.drift/1_000_000)
		}
	})
}
