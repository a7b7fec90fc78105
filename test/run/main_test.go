package main

import (
	"fmt"
	"testing"
)

// A package that is in no lane would be passed over.
func TestEveryPackageRunsInFullOnceAndWhereGoroutinesMeetUnderTheRaceDetector(t *testing.T) {
	packages := []string{"q/redlock", "q/internal/lease", "q/test/integration", "q/test/integration/fault", "q/fence"}
	for _, raced := range []bool{false, true} {
		full, underRace := map[string]int{}, map[string]int{}
		for _, p := range plan(raced, packages) {
			for _, name := range p.packages {
				if p.mark == "" {
					full[name]++
				}
				if p.raced {
					underRace[name]++
				}
			}
		}
		want := map[string]int{}
		for _, name := range packages {
			want[name] = 1
		}
		if got := fmt.Sprint(full); got != fmt.Sprint(want) {
			t.Errorf("with -race %t the packages run in full %v, want each once", raced, got)
		}
		if delete(want, "q/internal/lease"); !raced {
			clear(want)
		}
		if got := fmt.Sprint(underRace); got != fmt.Sprint(want) {
			t.Errorf("with -race %t the packages run under the race detector %v, want %v", raced, got, want)
		}
	}
}
