package clockdrift

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWitness(t *testing.T) {
	type reading struct{ monotonic, wall time.Duration } // since the one before
	second := reading{time.Second, time.Second}
	for _, tt := range []struct {
		name     string
		readings []reading
		want     time.Duration
	}{
		{"awake", []reading{second, second, second}, 0},
		{"asleep for 30s", []reading{second, {time.Second, 31 * time.Second}, second}, 30 * time.Second},
		{"asleep twice", []reading{{0, 5 * time.Second}, second, {time.Second, 8 * time.Second}}, 12 * time.Second},
		{"a wall clock that was stepped forward counts as sleep", []reading{{time.Second, time.Hour}}, time.Hour - time.Second},
		{"a wall clock that was stepped back does not", []reading{{time.Second, -time.Hour}, second}, 0},
		{"nor does it undo the sleep that was found", []reading{{0, time.Minute}, {time.Second, -time.Hour}}, time.Minute},
		{"a step of 100ms is below what counts", []reading{{0, 100 * time.Millisecond}}, 0},
		{"one of 102ms in a second is above", []reading{{time.Second, 1102 * time.Millisecond}}, 102 * time.Millisecond},
		{"a slew of 500 ppm over an hour", []reading{{time.Hour, time.Hour + 1800*time.Millisecond}}, 0},
		{"the same in four quarters", []reading{
			{15 * time.Minute, 15*time.Minute + 450*time.Millisecond},
			{15 * time.Minute, 15*time.Minute + 450*time.Millisecond},
			{15 * time.Minute, 15*time.Minute + 450*time.Millisecond},
			{15 * time.Minute, 15*time.Minute + 450*time.Millisecond},
		}, 0},
		{"a sleep of 30s in an hour", []reading{{time.Hour, time.Hour + 30*time.Second}}, 30 * time.Second},
	} {
		var (
			w               witness
			monotonic, wall time.Duration
			got             time.Duration
		)
		for _, r := range tt.readings {
			monotonic += r.monotonic
			wall += r.wall
			got = w.see(monotonic, wall)
		}
		if got != tt.want {
			t.Errorf("%s: the witness finds %v of sleep, want %v", tt.name, got, tt.want)
		}
	}
}

func TestWitnessInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewWith(new(witness).slept)
		time.Sleep(10 * time.Second)
		if got := clock.Fresh().Sub(0); got != 10*time.Second {
			t.Errorf("after 10s of virtual time a clock with a witness shows %v", got)
		}
	})
}
