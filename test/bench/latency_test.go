package main

import (
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	var l latencies
	for i := 1; i <= 1000; i++ {
		l.add(time.Duration(i) * 10 * time.Microsecond)
	}
	for _, tt := range []struct {
		q    float64
		want time.Duration
	}{
		{0.5, 5 * time.Millisecond},
		{0.9, 9 * time.Millisecond},
		{0.99, 9900 * time.Microsecond},
		{1, 10 * time.Millisecond},
	} {
		got := l.quantile(tt.q)
		if off := float64(got-tt.want) / float64(tt.want); off < 0 || off > 1.0/64 {
			t.Errorf("p%g of 10µs to 10ms = %v, want %v to 1/64 more", 100*tt.q, got, tt.want)
		}
	}
	if got := new(latencies).quantile(0.5); got != 0 {
		t.Errorf("the median of nothing = %v, want 0", got)
	}
}

func TestBuckets(t *testing.T) {
	const last = (highest-lowest+1)<<fraction - 1
	for _, tt := range []struct {
		d    time.Duration
		want int
	}{
		{-time.Second, 0}, {0, 0}, {1023, 0}, {1024, 0}, {1024 + 16, 1}, {time.Hour, last},
	} {
		if got := bucket(tt.d); got != tt.want {
			t.Errorf("bucket(%v) = %d, want %d", tt.d, got, tt.want)
		}
	}
	for i := range last {
		if above := ceiling(i) + 1; bucket(ceiling(i)) != i || bucket(above) != i+1 {
			t.Fatalf("bucket %d ends at %v, but %v is in %d and %v in %d",
				i, ceiling(i), ceiling(i), bucket(ceiling(i)), above, bucket(above))
		}
	}
}
