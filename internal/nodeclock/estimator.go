package nodeclock

import (
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

const (
	// DefaultRate is how far two clocks may differ in speed before an [Estimator]
	// calls it a step: 0.001, which is 1000 ppm. Crystals are below 100 ppm, and
	// NTP usually slews by at most 500.
	DefaultRate = 0.001

	// window is over how long an Estimator tells drift, and the least time for which it
	// keeps readings.
	window = 64 * time.Second

	// spacing is how far apart the readings are that it keeps of the last moments.
	spacing = time.Second

	// coarseness is how much farther apart older ones may be: an eighth of their age.
	coarseness = 8

	// resolution is that of TIME, which cuts off what is below a microsecond.
	resolution = time.Microsecond
)

// Sample is one reading of a node's clock by TIME, and between which two moments
// of ours it was taken.
type Sample struct {
	Sent     clockdrift.Instant // before TIME left: may be early ([clockdrift.Clock.Now]), never late
	Received clockdrift.Instant // after its reply arrived: may be late, never early ([clockdrift.Clock.Fresh])
	Node     time.Time          // what it said: time.Unix(seconds, microseconds*1000)
}

// Estimator tells from samples how a node's clock stands to ours, with bounds that
// hold, not with a likely value.
//
// One sample puts the node's clock within the round trip (F. Cristian,
// "Probabilistic clock synchronization", Distributed Computing 3, 1989): what the
// node said was right at some moment between Sent and Received, so the offset is
// known to half a round trip either way. Two clocks whose speeds differ by at most
// a given rate have an offset that changes by at most that rate, so an older sample
// still bounds it, somewhat wider. What all samples allow is the
// estimate: their intersection (K. Marzullo and S. Owicki, "Maintaining the time in
// a distributed system", 1983). A sample that shares nothing with the others cannot
// be drift: the clock was stepped, and the history begins anew.
//
// Samples may overlap: their bounds hold in whichever order the node was read, and what
// they leave open is as long as the time for which both were under way. One that was sent
// before the history began, and contradicts it, may be from before the step that began it.
// It is left out, and nothing is said of it.
//
// A step smaller than the bounds at that moment can hide in them. They may then
// exclude the truth until a sharper sample tells the step. [Estimator.Guard] bounds what
// hides.
//
// Of the samples of one second it keeps the sharpest bounds, for a minute or for as long as
// Guard says; older ones farther apart. So it does not matter how often the clock is read.
// It reads no clock, starts nothing, and is not safe for concurrent use.
type Estimator struct {
	rate     float64
	readings []reading          // oldest first, without a step between them
	began    clockdrift.Instant // when the first of this history had arrived
	last     reading            // of the last sample
	leases   leases
}

// reading is what samples of about one moment tell: bounds for the offset. It was at least
// floor when the reply arrived, if the node answered at the last moment, and at most ceiling
// when the request left, if it answered at the first. The two may be of two samples.
type reading struct {
	sent, received clockdrift.Instant // of floor
	floor          time.Duration
	left           clockdrift.Instant // of ceiling
	ceiling        time.Duration
}

// New returns an estimator for one node's clock. The rate is how far the
// speeds of the two clocks may differ, as a share: [DefaultRate] is 0.001. What
// goes beyond it is a step. A rate that is not between 0 and 1 is an error.
func New(rate float64) (*Estimator, error) {
	if !(rate > 0 && rate < 1) { // this way round NaN is refused too
		return nil, fmt.Errorf("nodeclock: rate %v is not between 0 and 1, such as 0.001 for 1000 ppm", rate)
	}
	return &Estimator{rate: rate}, nil
}

// Add takes a sample. If the sample shows that the node's clock was stepped since
// the one before, stepped is true, and step bounds by how much: above 0 for a step
// forward. The history then begins anew with this sample. One that was received before it
// was sent is left out.
func (e *Estimator) Add(s Sample) (step Bounds, stepped bool) {
	if s.Received < s.Sent {
		return Bounds{}, false
	}
	node := sinceEpoch(s.Node)
	r := reading{
		sent:     s.Sent,
		received: s.Received,
		floor:    node.Sub(s.Received),
		left:     s.Sent,
		ceiling:  node.Add(resolution).Sub(s.Sent),
	}
	e.last = r
	if len(e.readings) > 0 {
		// The offset now, less what the offset would be had nothing but drift
		// happened; the farthest apart at the two ends of the round trip.
		step = Bounds{
			Low:  sub(r.floor, e.bounds(r.received).High),
			High: sub(r.ceiling, e.bounds(r.sent).Low),
		}
		stepped = step.Low > 0 || step.High < 0
	}
	switch {
	case stepped && r.sent < e.began:
		return Bounds{}, false
	case stepped, len(e.readings) == 0:
		e.readings, e.began = append(e.readings[:0], r), r.received
	default:
		e.keep(r)
	}
	if !stepped {
		return Bounds{}, false
	}
	return step, true
}

// keep takes in a reading that contradicts no other.
func (e *Estimator) keep(r reading) {
	grid := clockdrift.Instant(e.spacing())
	if newest := &e.readings[len(e.readings)-1]; r.received/grid <= newest.received/grid {
		newest.sharpen(r)
		return
	}
	e.readings = append(e.readings, r)
	e.thin()
}

// sharpen takes over the better of two bounds.
func (r *reading) sharpen(other reading) {
	if other.floor > r.floor {
		r.sent, r.received, r.floor = other.sent, other.received, other.floor
	}
	if other.ceiling < r.ceiling {
		r.left, r.ceiling = other.left, other.ceiling
	}
}

// thin drops what is older than need be, but for one, and of the others those that stand
// nearer to each other than their age wants, or are a blur between two that are sharp.
func (e *Estimator) thin() {
	all := e.readings
	now := all[len(all)-1].received
	from := 0
	for from+1 < len(all) && now.Sub(all[from+1].received) > e.horizon() {
		from++
	}
	all[0] = all[from]
	kept := all[:1]
	for i := from + 1; i < len(all); i++ {
		if i+1 < len(all) {
			apart := all[i+1].received.Sub(kept[len(kept)-1].sent)
			blur := all[i].blur() > 2*max(kept[len(kept)-1].blur(), all[i+1].blur())
			if apart <= now.Sub(all[i+1].received)/coarseness || blur && apart <= 4*e.spacing() {
				continue
			}
		}
		kept = append(kept, all[i])
	}
	e.readings = kept
}

// blur is how long the reading took.
func (r *reading) blur() time.Duration { return r.received.Sub(r.sent) }

// spacing is how far apart readings are kept.
func (e *Estimator) spacing() time.Duration {
	if e.leases.longest == 0 {
		return spacing
	}
	return min(spacing, e.Period()/4)
}

// horizon is for how long readings are kept.
func (e *Estimator) horizon() time.Duration { return max(window, e.leases.longest) }

// Offset bounds the node's clock at the given moment: its time since the Unix
// epoch, less at. So the node's clock shows
//
//	time.Unix(0, int64(at)+int64(offset))
//
// Offsets of nodes compare with each other when they are by the same [clockdrift.Clock] and
// for the same moment. The bounds grow with the distance from the samples; ok is
// false before the first. A node's clock that is beyond the year 2262 or before
// 1678 counts as standing there.
func (e *Estimator) Offset(at clockdrift.Instant) (offset Bounds, ok bool) {
	if len(e.readings) == 0 {
		return Bounds{}, false
	}
	return e.bounds(at), true
}

func (e *Estimator) bounds(at clockdrift.Instant) Bounds {
	b := Bounds{Low: math.MinInt64, High: math.MaxInt64}
	for _, r := range e.readings {
		b.Low = max(b.Low, sub(r.floor, e.spread(at, r.received)))
		b.High = min(b.High, add(r.ceiling, e.spread(at, r.left)))
	}
	return b
}

// Drift bounds the mean difference in speed between the node's clock and ours over
// the last minute, in parts per million, above 0 if the node's is the faster: the
// flattest and the steepest slope that all samples together allow. No bound is
// farther from 0 than the estimator's rate. ok is false until there are two
// samples since the last step, at different moments.
func (e *Estimator) Drift() (low, high float64, ok bool) {
	first, last, ok := e.span()
	if !ok {
		return 0, 0, false
	}
	begin, end, span := e.bounds(first), e.bounds(last), float64(last.Sub(first))
	slope := func(from, to time.Duration) float64 {
		share := float64(sub(to, from)) / span
		return 1e6 * min(max(share, -e.rate), e.rate)
	}
	return slope(begin.High, end.Low), slope(begin.Low, end.High), true
}

// span is over what time drift is told.
func (e *Estimator) span() (first, last clockdrift.Instant, ok bool) {
	if len(e.readings) == 0 {
		return 0, 0, false
	}
	last = e.readings[len(e.readings)-1].left
	for _, r := range e.readings {
		if last.Sub(r.received) <= window {
			return r.received, last, r.received < last
		}
	}
	return 0, 0, false
}

// spread is by how much an offset can change between two moments, rounded up.
func (e *Estimator) spread(a, b clockdrift.Instant) time.Duration {
	apart := max(a, b).Sub(min(a, b))
	return add(time.Duration(float64(apart)*e.rate), 1)
}

// sinceEpoch is t as an Instant of the node's clock, whose origin is the Unix epoch.
func sinceEpoch(t time.Time) clockdrift.Instant {
	const most = math.MaxInt64 / int64(time.Second)
	switch seconds := t.Unix(); {
	case seconds >= most:
		return math.MaxInt64
	case seconds <= -most:
		return math.MinInt64
	}
	return clockdrift.Instant(t.UnixNano())
}
