package clockdrift

import (
	"testing"
	"time"
)

func TestLinuxClocks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		clock uintptr
	}{
		{name: "CLOCK_MONOTONIC", clock: clockMonotonic},
		{name: "CLOCK_BOOTTIME", clock: clockBoottime},
	} {
		before, ok := readClock(tt.clock)
		if !ok {
			t.Errorf("%s cannot be read", tt.name)
			continue
		}
		start := time.Now()
		for time.Since(start) < time.Millisecond {
			continue // the clock is what is tested: it has to move by itself
		}
		after, _ := readClock(tt.clock)
		if moved := after - before; moved < time.Millisecond {
			t.Errorf("%s moved by %v in %v", tt.name, moved, time.Since(start))
		}
	}
	if _, ok := readClock(1 << 20); ok {
		t.Error("a clock that does not exist was read")
	}
}
