package clockdrift

import (
	"testing"
	"testing/synctest"
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
		for time.Since(start) < time.Millisecond { //nolint:forbidigo // a slow machine only adds
			continue // the clock is what is tested: it has to move by itself
		}
		after, _ := readClock(tt.clock)
		if moved := after - before; moved < time.Millisecond {
			t.Errorf("%s moved by %v in a millisecond", tt.name, moved)
		}
	}
	if _, ok := readClock(1 << 20); ok {
		t.Error("a clock that does not exist was read")
	}
}

// An answer is kept while the machine cannot have slept, and no longer.
func TestTheSystemIsAskedWhereTheMachineMayHaveSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const standing = 1_795_000_000 * time.Second // of the wall clock before Go's
		var asked int
		var slept time.Duration
		v := newVigil(func() time.Duration { asked++; return slept })
		var awake time.Duration
		lead := standing
		for _, step := range []struct {
			when        string
			awake, lead time.Duration // since the step before
			slept       time.Duration // likewise
			asks        int
		}{
			{when: "at first", asks: 1},
			{when: "0.5ms later", awake: 500 * time.Microsecond},
			{when: "when the wall clock is read late", lead: 40 * time.Microsecond},
			{when: "when it is read early", lead: -80 * time.Microsecond},
			{when: "1ms after the first time", awake: 500 * time.Microsecond, lead: 40 * time.Microsecond, asks: 1},
			{when: "after a sleep of 30s", lead: 30 * time.Second, slept: 30 * time.Second, asks: 1},
			{when: "after a second one", lead: 100 * time.Microsecond, slept: 100 * time.Microsecond, asks: 1},
			{when: "when the wall clock was set forward", lead: time.Hour, asks: 1},
			{when: "when it was set back", lead: -2 * time.Hour, asks: 1},
			{when: "after a sleep during which it was set back", lead: time.Minute - time.Hour, slept: time.Minute, asks: 1},
			{when: "0.9ms later", awake: 900 * time.Microsecond},
			{when: "0.1ms later", awake: 100 * time.Microsecond, asks: 1},
		} {
			awake, lead, slept = awake+step.awake, lead+step.lead, slept+step.slept
			before := asked
			if got := v.at(awake, lead); got != slept {
				t.Errorf("%s: a sleep of %v is seen, want %v", step.when, got, slept)
			}
			if got := asked - before; got != step.asks {
				t.Errorf("%s: the system was asked %d times, want %d", step.when, got, step.asks)
			}
		}
	})
}

// Whoever has asked before a sleep, and is late, hides the sleep from nobody.
func TestALateAnswerHidesNoSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		var v *vigil
		v = newVigil(func() time.Duration {
			said := slept
			if slept == 0 { // the machine sleeps now, and another goroutine sees it first
				slept = time.Minute
				if got := v.at(0, slept); got != slept {
					t.Errorf("the other one sees a sleep of %v, want %v", got, slept)
				}
			}
			return said
		})
		v.at(0, 0)
		if got := v.at(0, slept); got != slept {
			t.Errorf("after the late answer a sleep of %v is seen, want %v", got, slept)
		}
	})
}

// An answer is too small by what has interrupted it. One of those is no base to measure sleep from.
func TestAnInterruptedAnswerIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interruption := 300 * time.Microsecond
		clock := NewWith(newVigil(func() time.Duration {
			late := interruption
			interruption = 0
			time.Sleep(late) //nolint:forbidigo // in virtual time
			return -late
		}).slept)
		time.Sleep(time.Second) //nolint:forbidigo // in virtual time
		if got, want := clock.Fresh().Sub(0), time.Second+300*time.Microsecond; got != want {
			t.Errorf("a clock that was interrupted when it was made shows %v after %v", got, want)
		}
	})
}
