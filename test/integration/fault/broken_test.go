package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
)

// The judges have to find what is wrong with locks that lack something, or their silence
// about ours says nothing.
func TestWhatIsBrokenIsFound(t *testing.T) {
	for _, tt := range []struct {
		what  string
		lack  func(t *testing.T, trial *Trial)
		kinds []schedule.Kind
		rule  string // that is broken
	}{
		{"no guard, and all nodes come back empty", without("guard"), []schedule.Kind{schedule.KillAll}, "exclusion"},
		{"no fences, and clients are stopped", without("fences"), []schedule.Kind{schedule.StopClient}, "register"},
		{"half of the nodes are a quorum, and links are cut", halfQuorum, []schedule.Kind{schedule.Cut}, "exclusion"},
		{"redsync, and all nodes come back empty", redsync, []schedule.Kind{schedule.KillAll}, "exclusion"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			trial := short(t)
			trial.Kinds = tt.kinds
			trial.Job.Keys, trial.Job.Mix = fewKeys, careless
			tt.lack(t, &trial)
			find(t, trial, tt.rule)
		})
	}
}

// Keys are so few, and holders keep them for so long, that whoever breaks in meets
// somebody.
const fewKeys = 16

var careless = worker.Mix{Slow: 500, Abandoned: 50}

func without(what string) func(*testing.T, *Trial) {
	return func(_ *testing.T, trial *Trial) { trial.Job.Without = []string{what} }
}

func redsync(_ *testing.T, trial *Trial) { trial.Job.Library = "redsync" }

// halfQuorum has the workers run a library that takes half of the nodes for a quorum.
func halfQuorum(t *testing.T, trial *Trial) {
	t.Helper()
	const sound, broken = "len(nodes)/2 + 1,", "len(nodes) / 2,"
	dir := t.TempDir()
	source, err := filepath.Abs("../../../redlock/locker.go")
	must(t, err)
	text, err := os.ReadFile(source) //nolint:gosec // our own source
	must(t, err)
	if strings.Count(string(text), sound) != 1 {
		t.Fatalf("%s has not one place with %q", source, sound)
	}
	mutated := filepath.Join(dir, "locker.go")
	must(t, os.WriteFile(mutated, []byte(strings.Replace(string(text), sound, broken, 1)), 0o600)) //nolint:gosec // in a folder of the test
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: mutated}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay"), overlay, 0o600))
	trial.Program = filepath.Join(dir, "worker")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay"), "-o", trial.Program, ".") //nolint:gosec // our own program
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, said)
	}
}

// within is how long the judges may take to find what is broken.
const within = time.Minute

// find repeats the trial, with one seed after another, until a rule is found broken.
func find(t *testing.T, trial Trial, rule string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < within; trial.Seed++ {
		before := time.Since(began)
		report := try(t, trial, make([]bool, five))
		i := slices.IndexFunc(report.Violations, func(v history.Violation) bool { return v.Rule == rule })
		if i >= 0 {
			t.Logf("found %v after the start, and first %v", (before + report.First()).Round(time.Millisecond), report.Violations[i])
			return
		}
	}
	t.Errorf("in %v nothing was found that breaks the rule of %s", within, rule)
}
