//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"slices"
	"testing"
	"time"
)

// What is seen every 750 ms for a day is said at once, and then after 1, 2, 4, … minutes more.
func TestWhatLastsIsSaidAgainAfterEverLongerPauses(t *testing.T) {
	var f refrain
	begun := time.Unix(0, 0)
	said := map[string][]time.Duration{}
	const day, pace = 24 * time.Hour, 750 * time.Millisecond
	for at := time.Duration(0); at < day; at += pace {
		for _, kind := range []string{"no quorum", "refused"}[:1+int(at/pace)%2] { // one of them every other time
			if f.due(kind, begun.Add(at)) {
				said[kind] = append(said[kind], at.Round(time.Minute))
			}
		}
	}
	var want []time.Duration
	for at, pause := time.Duration(0), time.Minute; at < day; at, pause = at+pause, 2*pause {
		want = append(want, at)
	}
	for _, kind := range []string{"no quorum", "refused"} {
		if !slices.Equal(said[kind], want) {
			t.Errorf("%q is said at %v, want %v", kind, said[kind], want)
		}
	}
	if lasted := f.over(begun.Add(day)); lasted != day {
		t.Errorf("at its end it has lasted for %v, want %v", lasted, day)
	}
	if lasted := f.over(begun.Add(day)); lasted != 0 {
		t.Errorf("the end is said a second time, after %v", lasted)
	}
	if !f.due("refused", begun.Add(day)) {
		t.Error("what comes back after its end is not said at once")
	}
}
