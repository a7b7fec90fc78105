package nodeclock_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
)

func ExampleMedian() {
	const year = 365 * 24 * time.Hour
	median, _ := nodeclock.Median([]nodeclock.Bounds{
		{Low: 3 * time.Millisecond, High: 5 * time.Millisecond},
		{Low: -30 * year, High: -30 * year}, // a node whose battery is flat
		{Low: 4 * time.Millisecond, High: 8 * time.Millisecond},
		{Low: 1 * time.Millisecond, High: 9 * time.Millisecond},
		{Low: 100 * year, High: 100 * year}, // a node that somebody has set
	})
	fmt.Println(median.Low, median.High, median.Mid())
	// Output: 3ms 8ms 5.5ms
}

// at is a clock whose offset is known exactly.
func at(offsets ...time.Duration) []nodeclock.Bounds {
	var bounds []nodeclock.Bounds
	for _, offset := range offsets {
		bounds = append(bounds, nodeclock.Bounds{Low: offset, High: offset})
	}
	return bounds
}

func TestMedian(t *testing.T) {
	const sane, ahead, behind = 1000, math.MaxInt64, math.MinInt64
	for _, tt := range []struct {
		name    string
		offsets []nodeclock.Bounds
		want    time.Duration
	}{
		{"one clock", at(7), 7},
		{"two clocks", at(9, 4), 6},
		{"three clocks, in no order", at(9, 1, 4), 4},
		{"four clocks", at(9, 1, 4, 6), 5},
		{"one of three far ahead", at(ahead, sane, sane), sane},
		{"one of three far behind", at(sane, behind, sane), sane},
		{"one of four far ahead", at(sane, sane, ahead, sane), sane},
		{"two of five far ahead", at(ahead, sane, ahead, sane, sane), sane},
		{"two of five far behind", at(behind, behind, sane, sane, sane), sane},
		{"two of five, one to each side", at(ahead, behind, sane, sane, sane), sane},
		{"two clocks at the ends of the range", at(ahead, behind), -1},
	} {
		got, ok := nodeclock.Median(tt.offsets)
		if want := (nodeclock.Bounds{Low: tt.want, High: tt.want}); !ok || got != want {
			t.Errorf("%s: the median is %v, %t, want %v", tt.name, got, ok, want)
		}
	}
	if got, ok := nodeclock.Median(nil); ok {
		t.Errorf("the median of no clocks is %v", got)
	}
}

func TestMedianLeavesItsInputAlone(t *testing.T) {
	offsets := at(9, 1, 4)
	nodeclock.Median(offsets)
	if offsets[0].Low != 9 || offsets[1].Low != 1 || offsets[2].Low != 4 {
		t.Errorf("Median has changed the offsets to %v", offsets)
	}
}

// FuzzMedian gives five clocks, of which two may stand anywhere: the median of the
// true offsets lies within the bounds, and within reach of the three right ones.
func FuzzMedian(f *testing.F) {
	f.Add(int64(0), int64(5), int64(-5), int64(math.MaxInt64), int64(math.MinInt64), uint16(10))
	f.Fuzz(func(t *testing.T, a, b, c, wrong, worse int64, blur uint16) {
		const reach = 1 << 40
		right := []time.Duration{time.Duration(a % reach), time.Duration(b % reach), time.Duration(c % reach)}
		truth := append(at(right...), at(time.Duration(wrong), time.Duration(worse))...)
		known := make([]nodeclock.Bounds, len(truth))
		for i, offset := range truth {
			known[i] = nodeclock.Bounds{
				Low:  time.Duration(clockdrift.Instant(offset.Low).Add(-time.Duration(blur))),
				High: time.Duration(clockdrift.Instant(offset.High).Add(time.Duration(blur) / 2)),
			}
		}
		want, _ := nodeclock.Median(truth)
		got, ok := nodeclock.Median(known)
		if !ok || got.Low > want.Low || got.High < want.High {
			t.Errorf("the clocks %v have the median %v, which is not within %v", truth, want.Low, got)
		}
		if mid := want.Mid(); mid < min(right[0], right[1], right[2]) || mid > max(right[0], right[1], right[2]) {
			t.Errorf("two wrong clocks have drawn the median of %v to %v", truth, mid)
		}
	})
}
