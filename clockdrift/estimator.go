package clockdrift

import (
	"fmt"
	"math"
	"time"
)

const (
	// DefaultRate is how far two clocks may differ in speed before an [Estimator]
	// calls it a step: 0.001, which is 1000 ppm. Crystals are below 100 ppm, and
	// NTP usually slews by at most 500.
	DefaultRate = 0.001

	// window is how many samples an Estimator keeps.
	window = 64

	// resolution is that of TIME, which cuts off what is below a microsecond.
	resolution = time.Microsecond
)

// Sample is one reading of a node's clock by TIME, and between which two moments
// of ours it was taken.
type Sample struct {
	Sent     Instant   // before TIME left: may be early ([Clock.Now]), never late
	Received Instant   // after its reply arrived: may be late, never early ([Clock.Fresh])
	Node     time.Time // what it said: time.Unix(seconds, microseconds*1000)
}

// Estimator tells from samples how a node's clock stands to ours, with bounds that
// hold, not with a likely value.
//
// One sample puts the node's clock within the round trip (F. Cristian,
// "Probabilistic clock synchronization", Distributed Computing 3, 1989): what the
// node said was right at some moment between Sent and Received, so the offset is
// known to half a round trip either way. Two clocks whose speeds differ by at most
// a given rate have an offset that changes by at most that rate, so an older sample
// still bounds it, somewhat wider. What all samples of the window allow is the
// estimate: their intersection (K. Marzullo and S. Owicki, "Maintaining the time in
// a distributed system", 1983). A sample that shares nothing with the others cannot
// be drift: the clock was stepped, and the history begins anew.
//
// A step smaller than the bounds at that moment can hide in them. They may then
// exclude the truth, until a sharper sample tells the step or 64 more have come.
//
// It keeps the last 64 samples: with one a second, drift is told over a minute. It
// reads no clock, starts nothing, and is not safe for concurrent use.
type Estimator struct {
	rate    float64
	samples []reading // oldest first
}

// reading is a sample as bounds for the offset: the offset was at least floor when
// the reply arrived, if the node answered at the last moment, and at most ceiling
// when the request left, if it answered at the first.
type reading struct {
	sent, received Instant
	floor, ceiling time.Duration
}

// NewEstimator returns an estimator for one node's clock. The rate is how far the
// speeds of the two clocks may differ, as a share: [DefaultRate] is 0.001. What
// goes beyond it is a step. A rate that is not between 0 and 1 is an error.
func NewEstimator(rate float64) (*Estimator, error) {
	if !(rate > 0 && rate < 1) { // this way round NaN is refused too
		return nil, fmt.Errorf("clockdrift: rate %v is not between 0 and 1, such as 0.001 for 1000 ppm", rate)
	}
	return &Estimator{rate: rate}, nil
}

// Add takes a sample. If the sample shows that the node's clock was stepped since
// the one before, stepped is true, and step bounds by how much: above 0 for a step
// forward. The history then begins anew with this sample.
//
// A sample that was sent before the last one arrived is left out, and so is one
// that was received before it was sent: replies that overtake each other would
// look like steps.
func (e *Estimator) Add(s Sample) (step Bounds, stepped bool) {
	if s.Received < s.Sent {
		return Bounds{}, false
	}
	node := sinceEpoch(s.Node)
	r := reading{
		sent:     s.Sent,
		received: s.Received,
		floor:    node.Sub(s.Received),
		ceiling:  node.Add(resolution).Sub(s.Sent),
	}
	if n := len(e.samples); n > 0 {
		if s.Sent < e.samples[n-1].received {
			return Bounds{}, false
		}
		// The offset now, less what the offset would be had nothing but drift
		// happened; the farthest apart at the two ends of the round trip.
		step = Bounds{
			Low:  time.Duration(sub(int64(r.floor), int64(e.bounds(r.received).High))),
			High: time.Duration(sub(int64(r.ceiling), int64(e.bounds(r.sent).Low))),
		}
		stepped = step.Low > 0 || step.High < 0
	}
	switch {
	case stepped:
		e.samples = append(e.samples[:0], r)
		return step, true
	case len(e.samples) == window:
		copy(e.samples, e.samples[1:])
		e.samples[window-1] = r
	default:
		e.samples = append(e.samples, r)
	}
	return Bounds{}, false
}

// Offset bounds the node's clock at the given moment: its time since the Unix
// epoch, less at. So the node's clock shows
//
//	time.Unix(0, int64(at)+int64(offset))
//
// Offsets of nodes compare with each other when they are by the same [Clock] and
// for the same moment. The bounds grow with the distance from the samples; ok is
// false before the first. A node's clock that is beyond the year 2262 or before
// 1678 counts as standing there.
func (e *Estimator) Offset(at Instant) (offset Bounds, ok bool) {
	if len(e.samples) == 0 {
		return Bounds{}, false
	}
	return e.bounds(at), true
}

func (e *Estimator) bounds(at Instant) Bounds {
	b := Bounds{Low: math.MinInt64, High: math.MaxInt64}
	for _, r := range e.samples {
		b.Low = max(b.Low, time.Duration(sub(int64(r.floor), e.spread(at, r.received))))
		b.High = min(b.High, time.Duration(add(int64(r.ceiling), e.spread(at, r.sent))))
	}
	return b
}

// Drift bounds the mean difference in speed between the node's clock and ours over
// the window, in parts per million, above 0 if the node's is the faster: the
// flattest and the steepest slope that all samples together allow. No bound is
// farther from 0 than the estimator's rate. ok is false until there are two
// samples since the last step, at different moments.
func (e *Estimator) Drift() (low, high float64, ok bool) {
	n := len(e.samples)
	if n < 2 {
		return 0, 0, false
	}
	first, last := e.samples[0].received, e.samples[n-1].sent
	if first == last {
		return 0, 0, false
	}
	begin, end, span := e.bounds(first), e.bounds(last), float64(last.Sub(first))
	slope := func(from, to time.Duration) float64 {
		share := float64(sub(int64(to), int64(from))) / span
		return 1e6 * min(max(share, -e.rate), e.rate)
	}
	return slope(begin.High, end.Low), slope(begin.Low, end.High), true
}

// spread is by how much an offset can change between two moments, rounded up.
func (e *Estimator) spread(a, b Instant) int64 {
	apart := max(a, b).Sub(min(a, b))
	return add(int64(float64(apart)*e.rate), 1)
}

// sinceEpoch is t as an Instant of the node's clock, whose origin is the Unix epoch.
func sinceEpoch(t time.Time) Instant {
	const most = math.MaxInt64 / int64(time.Second)
	switch seconds := t.Unix(); {
	case seconds >= most:
		return math.MaxInt64
	case seconds <= -most:
		return math.MinInt64
	}
	return Instant(t.UnixNano())
}
