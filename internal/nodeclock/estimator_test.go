package nodeclock_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
)

const (
	microsecond = clockdrift.Instant(time.Microsecond)
	millisecond = clockdrift.Instant(time.Millisecond)
	second      = clockdrift.Instant(time.Second)
)

// The ends of a clock's range.
const (
	first = clockdrift.Instant(math.MinInt64)
	last  = clockdrift.Instant(math.MaxInt64)
)

func newEstimator(t *testing.T) *nodeclock.Estimator {
	t.Helper()
	estimator, err := nodeclock.New(nodeclock.DefaultRate)
	if err != nil {
		t.Fatal(err)
	}
	return estimator
}

// sample is one of a node's clock that shows node at some moment of the round trip.
func sample(sent, received clockdrift.Instant, node time.Duration) nodeclock.Sample {
	return nodeclock.Sample{Sent: sent, Received: received, Node: time.Unix(0, int64(node))}
}

func TestEstimatorRate(t *testing.T) {
	for _, rate := range []float64{0, -0.001, 1, 2, math.NaN(), math.Inf(1)} {
		_, err := nodeclock.New(rate)
		if err == nil || !strings.Contains(err.Error(), "not between 0 and 1") {
			t.Errorf("an estimator with rate %v: %v, want an error that says what it may be", rate, err)
		}
	}
}

func TestOffset(t *testing.T) {
	const hour = time.Hour
	for _, tt := range []struct {
		name    string
		samples []nodeclock.Sample
		at      clockdrift.Instant
		want    nodeclock.Bounds
	}{
		{
			"one round trip of 2ms: the offset within 1ms either way, and TIME's microsecond",
			[]nodeclock.Sample{sample(0, 2*millisecond, hour+time.Millisecond)},
			0,
			// 2ms away from the reply the lower bound has grown by 0.001 of that.
			nodeclock.Bounds{Low: hour - time.Millisecond - 2001, High: hour + time.Millisecond + time.Microsecond + 1},
		},
		{
			"the best of two is the shorter round trip",
			[]nodeclock.Sample{
				sample(0, 100*millisecond, hour+time.Millisecond),
				sample(second, second+10*microsecond, hour+time.Second),
			},
			second + 10*microsecond,
			nodeclock.Bounds{Low: hour - 10*time.Microsecond - 1, High: hour + time.Microsecond + 10 + 1},
		},
		{
			"two that overlap by half leave the overlap",
			[]nodeclock.Sample{
				sample(0, 2*millisecond, hour), // it answered at once, or 2ms slow
				sample(2*millisecond, 4*millisecond, hour+4*time.Millisecond-time.Microsecond), // at once 2ms fast, or at the end
			},
			2 * millisecond,
			nodeclock.Bounds{Low: hour - time.Microsecond - 2001, High: hour + time.Microsecond + 2001},
		},
		{
			"an hour later the bounds have grown by 3.6s either way",
			[]nodeclock.Sample{sample(0, 0, hour)},
			3600 * second,
			nodeclock.Bounds{Low: hour - 3600*time.Millisecond - 1, High: hour + 3600*time.Millisecond + time.Microsecond + 1},
		},
		{
			"a sample that overtook another is left out",
			[]nodeclock.Sample{sample(0, second, hour), sample(second/2, second+1, 9*hour)},
			second,
			nodeclock.Bounds{Low: hour - time.Second - 1, High: hour + time.Microsecond + time.Millisecond + 1},
		},
		{
			"and so is one that arrived before it left",
			[]nodeclock.Sample{sample(0, 0, hour), sample(second, second-1, 9*hour)},
			0,
			nodeclock.Bounds{Low: hour - 1, High: hour + time.Microsecond + 1},
		},
		{
			"after a step only what came since counts",
			[]nodeclock.Sample{sample(0, 0, hour), sample(second, second, 2*hour+time.Second)},
			second,
			nodeclock.Bounds{Low: 2*hour - 1, High: 2*hour + time.Microsecond + 1},
		},
	} {
		estimator := newEstimator(t)
		for _, s := range tt.samples {
			estimator.Add(s)
		}
		if got, ok := estimator.Offset(tt.at); !ok || got != tt.want {
			t.Errorf("%s: the offset is %v to %v, %t, want %v to %v", tt.name, got.Low, got.High, ok, tt.want.Low, tt.want.High)
		}
	}
}

func TestNothingIsKnownBeforeTheFirstSample(t *testing.T) {
	estimator := newEstimator(t)
	if got, ok := estimator.Offset(0); ok {
		t.Errorf("without a sample the offset is %v", got)
	}
	if low, high, ok := estimator.Drift(); ok {
		t.Errorf("without a sample the drift is %v to %v ppm", low, high)
	}
	estimator.Add(sample(0, 0, time.Hour))
	estimator.Add(sample(0, 0, time.Hour))
	if low, high, ok := estimator.Drift(); ok {
		t.Errorf("from two samples at one moment the drift is %v to %v ppm", low, high)
	}
}

func TestStep(t *testing.T) {
	for _, tt := range []struct {
		name  string
		jump  time.Duration // between two samples, a second apart, with round trips of 2ms
		drift time.Duration // in that second
		want  bool
	}{
		{"none", 0, 0, false},
		{"drift of 1000 ppm ahead", 0, time.Millisecond, false},
		{"drift of 1000 ppm behind", 0, -time.Millisecond, false},
		{"a step that hides in the round trips", 2 * time.Millisecond, 0, false},
		{"a step forward", 6 * time.Millisecond, 0, true},
		{"a step back", -6 * time.Millisecond, 0, true},
		{"a step of an hour", time.Hour, 0, true},
		{"a step of 30 years back", -30 * 365 * 24 * time.Hour, 0, true},
	} {
		estimator := newEstimator(t)
		const epoch = 50 * 365 * 24 * time.Hour
		estimator.Add(sample(0, 2*millisecond, epoch+time.Millisecond))
		step, stepped := estimator.Add(sample(second, second+2*millisecond, epoch+time.Second+time.Millisecond+tt.jump+tt.drift))
		if stepped != tt.want {
			t.Errorf("%s: told as a step: %t, of %v to %v", tt.name, stepped, step.Low, step.High)
		}
		if stepped && (step.Low > tt.jump || step.High < tt.jump || step.Width() > 7*time.Millisecond) {
			t.Errorf("%s: the step is told to be %v to %v, want bounds around %v", tt.name, step.Low, step.High, tt.jump)
		}
		if !stepped && step != (nodeclock.Bounds{}) {
			t.Errorf("%s: there was no step, of %v to %v", tt.name, step.Low, step.High)
		}
	}
}

func TestDrift(t *testing.T) {
	for _, tt := range []struct {
		name      string
		ppm       int64
		samples   int
		roundTrip clockdrift.Instant
		blur      float64 // how wide the bounds may be
	}{
		{"a clock that keeps time", 0, 60, 200 * microsecond, 14},
		{"a crystal that is off", 80, 60, 200 * microsecond, 14},
		{"a clock that is being slewed back", -500, 60, 200 * microsecond, 14},
		{"more samples than are kept", 80, 500, 200 * microsecond, 14},
		{"over a long way", 80, 60, 50 * millisecond, 2000},
		{"at the limit", 1000, 60, 200 * microsecond, 14},
	} {
		estimator := newEstimator(t)
		for i := range tt.samples {
			sent := clockdrift.Instant(i) * second
			middle := int64(sent + tt.roundTrip/2)
			node := time.Duration(middle + middle*tt.ppm/1_000_000)
			if step, stepped := estimator.Add(sample(sent, sent+tt.roundTrip, node)); stepped {
				t.Fatalf("%s: sample %d is told as a step of %v", tt.name, i, step.Mid())
			}
		}
		low, high, ok := estimator.Drift()
		if want := float64(tt.ppm); !ok || low > want || high < want || high-low > tt.blur {
			t.Errorf("%s: the drift is %.1f to %.1f ppm, %t, want bounds around %v, not more than %v apart", tt.name, low, high, ok, want, tt.blur)
		}
	}
}

// A round trip of a second, in which the clock may have drifted by 1ms: a step is
// told as soon as no moment in it explains what the node said.
func TestStepInALongRoundTrip(t *testing.T) {
	for _, tt := range []struct {
		name string
		node time.Duration // said to a request from 1s to 2s
		want bool
	}{
		{"the slowest that drift allows, if it answered at once", time.Second - time.Millisecond - time.Microsecond, false},
		{"slower than that", time.Second - time.Millisecond - 2*time.Microsecond, true},
		{"the fastest that drift allows, if it answered last", 2*time.Second + 2*time.Millisecond + time.Microsecond, false},
		{"faster than that", 2*time.Second + 2*time.Millisecond + 2*time.Microsecond, true},
	} {
		estimator := newEstimator(t)
		estimator.Add(sample(0, 0, 0))
		if step, stepped := estimator.Add(sample(second, 2*second, tt.node)); stepped != tt.want {
			t.Errorf("%s: told as a step: %t, of %v to %v", tt.name, stepped, step.Low, step.High)
		}
	}
}

func TestClockBeyondTheRangeStandsAtItsEnd(t *testing.T) {
	for _, tt := range []struct {
		year int
		want clockdrift.Instant
	}{
		{year: 1, want: first},
		{year: 1677, want: first},
		{year: 2263, want: last},
		{year: 200_000, want: last},
	} {
		estimator := newEstimator(t)
		estimator.Add(nodeclock.Sample{Node: time.Date(tt.year, time.January, 1, 0, 0, 0, 0, time.UTC)})
		offset, _ := estimator.Offset(0)
		if off := clockdrift.Instant(offset.Mid()).Sub(tt.want); off < -time.Microsecond || off > time.Microsecond {
			t.Errorf("a clock in the year %d has the offset %v to %v, want about %v", tt.year, offset.Low, offset.High, tt.want)
		}
	}
}

// The ends of the range must not make a step or a panic out of an overflow.
func TestEstimatorWithClocksThatAreOutOfRange(t *testing.T) {
	for _, node := range []time.Time{
		{},
		time.Unix(math.MaxInt64, 0),
		time.Unix(math.MinInt64, 0),
		time.Unix(math.MaxInt64/int64(time.Second), 999_999_999),
		time.Unix(-math.MaxInt64/int64(time.Second), 0),
	} {
		estimator := newEstimator(t)
		estimator.Add(nodeclock.Sample{Sent: first, Received: first, Node: node})
		estimator.Add(nodeclock.Sample{Sent: 0, Received: second, Node: node})
		estimator.Add(nodeclock.Sample{Sent: last, Received: last, Node: node})
		if offset, ok := estimator.Offset(second); !ok || offset.Low > offset.High {
			t.Errorf("a clock that shows %v has the offset %v to %v, %t", node, int64(offset.Low), int64(offset.High), ok)
		}
		if low, high, ok := estimator.Drift(); ok && !(low <= high) {
			t.Errorf("a clock that shows %v drifts by %v to %v ppm", node, low, high)
		}
	}
}
