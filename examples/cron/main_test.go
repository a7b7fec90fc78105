package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestWhoIsElectedWritesTheReports(t *testing.T) {
	for _, down := range []int{0, 2} {
		told, err := programtest.Tells(t, down, run,
			"Three replicas .* All of them write it:",
			"  replica . writes the report of day 1", "  replica . writes the report of day 1", "  replica . writes the report of day 1",
			"The report of day 1: begun three times, ended three times.",
			"Only the one that is elected writes:",
			"  replica . is elected", "  replica . writes the report of day 1",
			"  replica . writes the report of day 2", "  replica . dies over it: .*",
			"  replica . is elected", "  replica . finds the report of day 2 begun and not ended: .*",
			"  replica . writes the report of day 3",
			"Meanwhile a proxy saw who leads: replica ., and then replica ..",
			"The report of day 1: begun once, ended once.",
			"The report of day 2: begun once, ended never.",
			"The report of day 3: begun once, ended once.")
		if err != nil || strings.Count(told, " is elected\n") != 2 {
			t.Errorf("%d of five nodes down: run = %v, after\n%s", down, err, told)
		}
	}
}
