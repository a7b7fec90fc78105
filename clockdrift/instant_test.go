package clockdrift_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

func ExampleDeadline() {
	start := clockdrift.Instant(60 * time.Second) // read before the request left
	deadline := clockdrift.Deadline(start, 10*time.Second, clockdrift.DefaultFactor)

	now := start.Add(30 * time.Millisecond) // read when the deciding reply arrived
	fmt.Println("ends at", deadline)
	fmt.Println("valid for", deadline.Sub(now))
	// Output:
	// ends at 1m9.898s
	// valid for 9.868s
}

func ExampleInstant_Sub() {
	start := clockdrift.Instant(2 * time.Second)
	fmt.Println(start.Add(5 * time.Second).Sub(start))
	// Output: 5s
}

const (
	first = clockdrift.Instant(math.MinInt64)
	last  = clockdrift.Instant(math.MaxInt64)
)

func TestInstantStopsAtTheEndsOfItsRange(t *testing.T) {
	for _, tt := range []struct {
		at   clockdrift.Instant
		add  time.Duration
		want clockdrift.Instant
	}{
		{at: 5, add: 3, want: 8},
		{at: 5, add: -8, want: -3},
		{at: last, add: 1, want: last},
		{at: last, add: math.MaxInt64, want: last},
		{at: last, add: math.MinInt64, want: -1},
		{at: first, add: -1, want: first},
		{at: first, add: math.MaxInt64, want: -1},
	} {
		if got := tt.at.Add(tt.add); got != tt.want {
			t.Errorf("%v after %v is %v, want %v", tt.add, tt.at, got, tt.want)
		}
	}
	for _, tt := range []struct {
		to, from clockdrift.Instant
		want     time.Duration
	}{
		{to: 8, from: 5, want: 3},
		{to: 5, from: 8, want: -3},
		{to: last, from: -1, want: math.MaxInt64},
		{to: -2, from: last, want: math.MinInt64},
		{to: 0, from: first, want: math.MaxInt64},
		{to: -1, from: first, want: math.MaxInt64},
		{to: first, from: first, want: 0},
		{to: first, from: 1, want: math.MinInt64},
	} {
		if got := tt.to.Sub(tt.from); got != tt.want {
			t.Errorf("from %v to %v it is %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

func TestDeadline(t *testing.T) {
	for _, tt := range []struct {
		start  clockdrift.Instant
		ttl    time.Duration
		factor float64
		want   clockdrift.Instant
	}{
		{start: 0, ttl: 10 * time.Second, factor: 0.01, want: clockdrift.Instant(9898 * time.Millisecond)},
		{start: clockdrift.Instant(time.Hour), ttl: time.Second, factor: 0.01, want: clockdrift.Instant(time.Hour + 988*time.Millisecond)},
		{start: clockdrift.Instant(time.Second), ttl: time.Millisecond, factor: 0, want: clockdrift.Instant(999 * time.Millisecond)},
		{start: clockdrift.Instant(time.Second), ttl: 0, factor: 0.01, want: clockdrift.Instant(998 * time.Millisecond)},
		{start: last, ttl: math.MaxInt64, factor: 0, want: last},
		{start: last, ttl: time.Second, factor: 2, want: last - clockdrift.Instant(time.Second+fixed)},
		{start: first, ttl: math.MinInt64, factor: 0.01, want: first},
	} {
		if got := clockdrift.Deadline(tt.start, tt.ttl, tt.factor); got != tt.want {
			t.Errorf("a lease of %v from %v with factor %v ends at %v, want %v", tt.ttl, tt.start, tt.factor, got, tt.want)
		}
	}
}

func FuzzDeadline(f *testing.F) {
	f.Add(int64(0), int64(10*time.Second), 0.01)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), 0.01)
	f.Add(int64(math.MinInt64), int64(math.MinInt64), math.NaN())
	f.Fuzz(func(t *testing.T, from, nanoseconds int64, factor float64) {
		start, ttl := clockdrift.Instant(from), time.Duration(nanoseconds)
		got := clockdrift.Deadline(start, ttl, factor)

		latest := new(big.Int).Add(big.NewInt(from), big.NewInt(nanoseconds))
		latest.Sub(latest, big.NewInt(int64(fixed)))
		if got != first && big.NewInt(int64(got)).Cmp(latest) > 0 {
			t.Errorf("a lease of %v from %v with factor %v ends at %v, which is later than start + TTL − 2ms = %vns", ttl, start, factor, got, latest)
		}
		// The validity shrinks as time goes on, and is gone at the deadline.
		if left := got.Sub(got); left != 0 {
			t.Errorf("at its deadline the lease is valid for %v", left)
		}
		if later := clockdrift.Deadline(start.Add(time.Millisecond), ttl, factor); later < got {
			t.Errorf("a lease that starts later than %v ends earlier: at %v, not %v", start, later, got)
		}
	})
}
