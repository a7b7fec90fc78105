package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A package that is in no lane would be passed over.
func TestEveryPackageIsInOneLane(t *testing.T) {
	packages := []string{"m/driver/redigo", "m/test/integration", "m/redlock", "m/redlocktest", "m/test/integration/fault", "m/test/integration/fault/history", "m/test/bench"}
	want := [][]string{
		{"m/test/integration/fault"},
		{"m/redlock"},
		{"m/test/integration/fault/history"},
		{"m/test/bench"},
		{"m/test/integration"},
		{"m/driver/redigo", "m/redlocktest"},
	}
	if got := split(packages); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the lanes of %v are %v, want %v", packages, got, want)
	}
}

func TestEveryPackageRunsInFullOnceAndWhereGoroutinesMeetUnderTheRaceDetector(t *testing.T) {
	packages := []string{"q/redlock", "q/internal/lease", "q/test/integration", "q/test/integration/fault", "q/fence"}
	for _, raced := range []bool{false, true} {
		full, underRace := map[string]int{}, map[string]int{}
		for _, p := range plan(raced, packages) {
			for _, name := range p.packages {
				if p.mark == "" {
					full[name]++
				}
				if p.raced && !slices.ContainsFunc(p.flags, func(flag string) bool { return strings.HasPrefix(flag, "-run=") }) { // one part stands for the package
					underRace[name]++
				}
			}
		}
		want := map[string]int{}
		for _, name := range packages {
			want[name] = 1
		}
		if !maps.Equal(full, want) {
			t.Errorf("with -race %t the packages run in full %v, want each once", raced, full)
		}
		if delete(want, "q/internal/lease"); !raced {
			clear(want)
		}
		if !maps.Equal(underRace, want) {
			t.Errorf("with -race %t the packages run under the race detector %v, want %v", raced, underRace, want)
		}
	}
}
