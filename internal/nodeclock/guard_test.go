package nodeclock_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
)

// A wander is a node's clock that drifts within the rate and is set now and then.
type wander struct{ turns []turn }

// A turn is where the clock's speed changes, or the clock is set.
type turn struct {
	at   clockdrift.Instant
	off  time.Duration // from then on, at this moment
	rate float64
}

func (w *wander) off(at clockdrift.Instant) time.Duration {
	i, found := slices.BinarySearchFunc(w.turns, at, func(t turn, at clockdrift.Instant) int { return cmp.Compare(t.at, at) })
	if !found {
		i--
	}
	t := w.turns[i]
	return t.off + time.Duration(float64(at-t.at)*t.rate)
}

func (w *wander) sample(sent, read, received clockdrift.Instant) nodeclock.Sample {
	node := time.Unix(0, int64(read)).Add(time.Hour + w.off(read)).Truncate(time.Microsecond)
	return nodeclock.Sample{Sent: sent, Received: received, Node: node}
}

// newWander is a clock that is set so many times: forward alone, or back as well.
func newWander(rng *rand.Rand, length clockdrift.Instant, steps int, back bool) *wander {
	w := &wander{turns: []turn{{rate: 0.001 * (2*rng.Float64() - 1)}}}
	var ats []clockdrift.Instant
	for range steps {
		ats = append(ats, clockdrift.Instant(1+rng.Int64N(int64(length))))
	}
	slices.Sort(ats)
	for _, at := range slices.Compact(ats) {
		by := time.Duration(rng.Int64N(int64(time.Millisecond) << rng.IntN(18)))
		if back && rng.IntN(2) == 0 {
			by = -by
		}
		w.turns = append(w.turns, turn{at, w.off(at) + by, 0.001 * (2*rng.Float64() - 1)})
	}
	return w
}

type journey struct{ sent, read, received clockdrift.Instant }

// journeys are those of samples of which many are under way at once, in the order of their
// arrival, with pauses in between.
func journeys(rng *rand.Rand, count int) (all []journey, length clockdrift.Instant) {
	var now clockdrift.Instant
	for range count {
		now += microsecond << rng.IntN(14)
		if rng.IntN(20) == 0 {
			now += second << rng.IntN(6)
		}
		there, back := microsecond<<rng.IntN(16), microsecond<<rng.IntN(16)
		all = append(all, journey{now, now + there, now + there + back})
		length = max(length, now+there+back)
	}
	slices.SortFunc(all, func(a, b journey) int { return cmp.Compare(a.received, b.received) })
	return all, length
}

// Replies that overtake each other must not look like a step.
func FuzzOverlappingSamplesTellNoStepThatWasNotThere(f *testing.F) {
	f.Add(uint64(1), uint8(200))
	f.Add(uint64(2), uint8(50))
	f.Fuzz(func(t *testing.T, seed uint64, samples uint8) {
		rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a simulation has to be repeatable
		all, length := journeys(rng, int(samples))
		node := newWander(rng, length+1, rng.IntN(3), true)
		estimator := newEstimator(t)
		for i, j := range all {
			step, stepped := estimator.Add(node.sample(j.sent, j.read, j.received))
			if !stepped {
				continue
			}
			forward := step.Low > 0
			if !slices.ContainsFunc(node.turns[1:], func(turn turn) bool {
				by := turn.off - node.off(turn.at-1)
				return turn.at <= j.received && (by > 0) == forward
			}) {
				t.Errorf("sample %d of %d is told as a step of %v to %v: the clock was set at %+v", i, len(all), step.Low, step.High, node.turns[1:])
			}
		}
	})
}

// What Excess rules out has not happened, however samples overlap and however seldom they
// are taken.
func FuzzExcess(f *testing.F) {
	f.Add(uint64(1), uint8(200))
	f.Add(uint64(2), uint8(250))
	f.Add(uint64(3), uint8(50))
	f.Fuzz(func(t *testing.T, seed uint64, samples uint8) {
		const factor = clockdrift.DefaultFactor
		rng := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a simulation has to be repeatable
		all, length := journeys(rng, int(samples))
		node := newWander(rng, length+1, rng.IntN(8), false)
		shortest := 10 * time.Millisecond << rng.IntN(11)
		longest := shortest << rng.IntN(4)
		estimator := newEstimator(t)
		estimator.Guard(shortest, longest, factor)
		var out clockdrift.Instant
		for i, j := range all {
			if step, stepped := estimator.Add(node.sample(j.sent, j.read, j.received)); stepped && step.Low > 0 {
				out = j.received.Add(longest)
			}
			if excess, _ := estimator.Excess(); excess > 0 || j.read < out {
				continue
			}
			check := func(began clockdrift.Instant) {
				d := j.read.Sub(began)
				if began < all[0].received || began > j.read || d > longest {
					return
				}
				if gain, allowed := node.off(j.read)-node.off(began), clockdrift.Allowance(max(d, shortest), factor); gain > allowed {
					t.Fatalf("sample %d of %d: leases from %v to %v: of the last %v nothing beyond %v is left to hide, and the clock has gained %v", i, len(all), shortest, longest, d, allowed, gain)
				}
			}
			check(all[0].received)
			check(j.read.Add(-longest))
			check(j.read.Add(-shortest))
			for _, turn := range node.turns {
				check(turn.at)
				check(turn.at - 1)
			}
		}
	})
}

func TestExcess(t *testing.T) {
	const hour = time.Hour
	at := func(when clockdrift.Instant, trip, step time.Duration) nodeclock.Sample {
		return sample(when, when.Add(trip), hour+time.Duration(when)+trip/2+step)
	}
	for _, tt := range []struct {
		name    string
		samples []nodeclock.Sample
		excess  bool
		lasts   clockdrift.Instant
	}{
		{"one sharp sample", []nodeclock.Sample{at(0, time.Millisecond, 0)}, false, 0},
		{"a sample that took longer than the allowance", []nodeclock.Sample{at(0, time.Millisecond, 0), at(second, 300*time.Millisecond, 0)}, true, 0},
		{"that was read once more", []nodeclock.Sample{at(0, time.Millisecond, 0), at(second, 300*time.Millisecond, 0), at(second*3/2, time.Millisecond, 0)}, false, 0},
		{"readings a period apart", []nodeclock.Sample{at(0, 0, 0), at(12*second, 0, 0), at(24*second, 0, 0)}, false, 0},
		{"five idle minutes", []nodeclock.Sample{at(0, 0, 0), at(300*second, 0, 0)}, true, 310 * second},
		{"five idle minutes, until the longest lease has passed", []nodeclock.Sample{at(0, 0, 0), at(300*second, 0, 0), at(305*second, 0, 0), at(311*second, 0, 0)}, false, 0},
		{"a step within the allowance", []nodeclock.Sample{at(0, 0, 0), at(second, 50*time.Millisecond, 30*time.Millisecond)}, false, 0},
		{"small steps that add up", []nodeclock.Sample{
			at(0, 50*time.Millisecond, 0), at(second, 50*time.Millisecond, 17*time.Millisecond),
			at(2*second, 50*time.Millisecond, 34*time.Millisecond), at(3*second, 50*time.Millisecond, 52*time.Millisecond),
		}, true, 0},
	} {
		estimator := newEstimator(t)
		estimator.Guard(10*time.Second, 10*time.Second, clockdrift.DefaultFactor)
		for _, s := range tt.samples {
			estimator.Add(s)
		}
		if excess, lasts := estimator.Excess(); (excess > 0) != tt.excess || lasts != tt.lasts {
			t.Errorf("%s: the clock may have gained %v too much, until %v, want more than 0: %t, until %v", tt.name, excess, lasts, tt.excess, tt.lasts)
		}
	}
	estimator := newEstimator(t)
	estimator.Guard(10*time.Second, 10*time.Second, clockdrift.DefaultFactor)
	if got := estimator.Period(); got != 12625*time.Millisecond {
		t.Errorf("the period for leases of 10s is %v, want 12.625s", got)
	}
}
