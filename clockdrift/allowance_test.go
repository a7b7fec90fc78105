package clockdrift_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// fixed is the allowance where the factor is 0.
const fixed = 2 * time.Millisecond

func ExampleAllowance() {
	fmt.Println(clockdrift.Allowance(10*time.Second, clockdrift.DefaultFactor))
	fmt.Println(clockdrift.Allowance(10*time.Millisecond, clockdrift.DefaultFactor))
	// Output:
	// 102ms
	// 2.1ms
}

func TestAllowance(t *testing.T) {
	for _, tt := range []struct {
		ttl    time.Duration
		factor float64
		want   time.Duration
	}{
		{ttl: 10 * time.Second, factor: 0.01, want: 102 * time.Millisecond},
		{ttl: 30 * time.Second, factor: 0.01, want: 302 * time.Millisecond},
		{ttl: 8 * time.Second, factor: 0.01, want: 82 * time.Millisecond},
		{ttl: 10 * time.Millisecond, factor: 0.01, want: 2*time.Millisecond + 100*time.Microsecond},
		{ttl: time.Second, factor: 0, want: fixed},
		{ttl: time.Second, factor: 1, want: time.Second + fixed},
		{ttl: 3, factor: 0.5, want: 2 + fixed}, // rounded up
		{ttl: 1, factor: 1e-300, want: 1 + fixed},
		{ttl: 0, factor: 0.01, want: fixed},
		{ttl: -time.Hour, factor: 0.01, want: fixed},
		{ttl: math.MinInt64, factor: 1, want: fixed},
		{ttl: time.Second, factor: -1, want: fixed},
		{ttl: time.Second, factor: math.Inf(-1), want: fixed},
		{ttl: time.Second, factor: math.Inf(1), want: math.MaxInt64},
		{ttl: time.Second, factor: math.NaN(), want: math.MaxInt64},
		{ttl: time.Second, factor: 1e30, want: math.MaxInt64},
		{ttl: math.MaxInt64, factor: 1, want: math.MaxInt64},
		{ttl: 1 << 62, factor: math.Nextafter(2, 0), want: math.MaxInt64}, // only with the fixed part
	} {
		if got := clockdrift.Allowance(tt.ttl, tt.factor); got != tt.want {
			t.Errorf("a lease of %v with factor %v allows %v for drift, want %v", tt.ttl, tt.factor, got, tt.want)
		}
	}
}

func FuzzAllowance(f *testing.F) {
	f.Add(int64(10*time.Second), 0.01)
	f.Add(int64(math.MaxInt64), 1.0)
	f.Add(int64(math.MinInt64), -1.0)
	f.Add(int64(1), math.NaN())
	f.Fuzz(func(t *testing.T, nanoseconds int64, factor float64) {
		ttl := time.Duration(nanoseconds)
		got := clockdrift.Allowance(ttl, factor)
		if got < fixed {
			t.Fatalf("a lease of %v with factor %v allows %v for drift, which is less than the fixed part", ttl, factor, got)
		}
		if ttl <= 0 || !(factor >= 0 && factor <= math.MaxFloat64) {
			return
		}
		// Against arithmetic without limits. A float64 has 53 bits, so what the
		// product may lack is far below a billionth of it.
		exact := new(big.Rat).Mul(new(big.Rat).SetInt64(nanoseconds), new(big.Rat).SetFloat64(factor))
		least := new(big.Rat).Mul(exact, big.NewRat(999_999_999, 1_000_000_000))
		most := new(big.Rat).Mul(exact, big.NewRat(1_000_000_001, 1_000_000_000))
		most.Add(most, big.NewRat(1, 1))
		share := new(big.Rat).SetInt64(int64(got - fixed))
		if got != math.MaxInt64 && share.Cmp(least) < 0 {
			t.Errorf("a lease of %v with factor %v allows %v for drift, want at least %v more than the fixed part", ttl, factor, got, exact.FloatString(1))
		}
		if share.Cmp(most) > 0 {
			t.Errorf("a lease of %v with factor %v allows %v for drift, want at most %v more than the fixed part", ttl, factor, got, exact.FloatString(1))
		}
		if longer := clockdrift.Allowance(ttl+time.Duration(1), factor); ttl < math.MaxInt64 && longer < got {
			t.Errorf("a lease longer than %v is allowed less for drift: %v, not %v", ttl, longer, got)
		}
	})
}
