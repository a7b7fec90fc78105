package main

import (
	"flag"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
)

// The judges have to find what is wrong with locks that lack something, or their silence about ours
// says nothing. The first ones show that the judges are awake; make proof plants all.
func TestWhatIsBrokenIsFound(t *testing.T) {
	needServers(t) // before any of them is built
	plants := []plant{
		{"no guard, and all nodes come back empty", without("guard"), worker.Careless, []schedule.Kind{schedule.KillAll}, "exclusion"},
		{"no fences, and clients are stopped", without("fences"), worker.Careless, []schedule.Kind{schedule.StopClient}, "register"},
	}
	if *allPlants {
		plants = append(plants, morePlants...)
	}
	for _, tt := range plants {
		t.Run(tt.what, func(t *testing.T) {
			trial := short(t)
			trial.Kinds = tt.kinds
			trial.Job.Keys, trial.Job.Mix = fewKeys, tt.mix
			tt.lack(t, &trial)
			find(t, trial, tt.rule)
		})
	}
}

var allPlants = flag.Bool("plants.all", false, "plant all mistakes, which takes ten minutes")

// A plant is something that locks lack, and the rule that is broken without it.
type plant struct {
	what  string
	lack  func(t *testing.T, trial *Trial)
	mix   worker.Mix
	kinds []schedule.Kind
	rule  string
}

var morePlants = []plant{
	{
		"half of the nodes are a quorum, and links are cut",
		mutant("a quorum is one node fewer than a majority"), worker.Careless,
		[]schedule.Kind{schedule.Cut},
		"exclusion",
	},
	{
		"the guard looks in front of the votes, and all nodes forget in the middle of a batch",
		mutant("the look stands in front of the grants"), worker.Long,
		[]schedule.Kind{schedule.FlushInVote, schedule.TurnInVote},
		"exclusion",
	},
	{"redsync, and all nodes come back empty", redsync, worker.Careless, []schedule.Kind{schedule.KillAll}, "exclusion"},
	{
		"an unknown outcome is never taken to be over, and nodes stall again and again",
		busy(mutant("an unknown outcome is never taken to be over")), worker.Ordinary,
		[]schedule.Kind{schedule.StallNode, schedule.StallLinks},
		"retries",
	},
	{"redsync, and several ask at one instant", mixed(redsync, "instant"), worker.Ordinary, none, "answers"},
	{"redsync, and several ask at one instant, of whom nobody has it", mixed(redsync, "instant"), worker.Ordinary, none, "owners"},
	{"no renewals", without("renewals"), worker.Long, none, "renewal"},
	{"some are not released, with leases of a minute", minute(without("releases")), worker.Ordinary, none, leftBehind},
	{"some are not released, with leases of a minute, and others wait", busy(minute(without("releases"))), worker.Ordinary, none, "liveness"},
	{"votes are asked for again when they are long over", without("order"), worker.Ordinary, []schedule.Kind{schedule.Farther}, "votes"},
}

// none are no faults.
var none = []schedule.Kind{}

// leftBehind is no rule of the history.
const leftBehind = "left behind"

// fewKeys are so few that whoever breaks in meets somebody.
const fewKeys = 16

func without(what string) func(*testing.T, *Trial) {
	return func(_ *testing.T, trial *Trial) { trial.Job.Without = []string{what} }
}

func redsync(_ *testing.T, trial *Trial) { trial.Job.Library = "redsync" }

// mixed has locks of a kind.
func mixed(lack func(*testing.T, *Trial), kind string) func(*testing.T, *Trial) {
	return func(t *testing.T, trial *Trial) {
		t.Helper()
		trial.Job.Locks = []string{kind}
		lack(t, trial)
	}
}

// minute has leases that no trial waits for.
func minute(lack func(*testing.T, *Trial)) func(*testing.T, *Trial) {
	return func(t *testing.T, trial *Trial) {
		t.Helper()
		lack(t, trial)
		trial.Job.Lease, trial.Job.Without = time.Minute, append(trial.Job.Without, "guard")
	}
}

// mutant has the workers run the library without one of its mechanisms: see test/mutants.
func mutant(name string) func(*testing.T, *Trial) {
	return func(t *testing.T, trial *Trial) {
		t.Helper()
		dir := t.TempDir()
		trial.Program = filepath.Join(dir, "worker")
		for _, command := range []*exec.Cmd{
			exec.CommandContext(t.Context(), "go", "run", "../../mutants", "-run", "^"+name+"$", "-overlay", dir),                     //nolint:gosec // our own program
			exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", trial.Program, "."), //nolint:gosec // the same
		} {
			if said, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", command, err, said)
			}
		}
	}
}

// busy has a trial last for longer, with more workers on more keys.
func busy(lack func(*testing.T, *Trial)) func(*testing.T, *Trial) {
	return func(t *testing.T, trial *Trial) {
		t.Helper()
		trial.For, trial.Job.Workers, trial.Job.Keys = 15*time.Second, 32, 1024
		lack(t, trial)
	}
}

// within is how long the judges may take to find what is broken: what happens inside one batch
// takes its luck, and some ten seconds as a rule.
const within = 4 * time.Minute

// find repeats the trial, with one seed after another, until a rule is found broken.
func find(t *testing.T, trial Trial, rule string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < within; trial.Seed++ {
		before := time.Since(began)
		report := try(t, trial, make([]bool, five))
		if rule == leftBehind && len(report.Remains) > 0 {
			t.Logf("found at the end, after %v: %s", time.Since(began).Round(time.Second), report.Remains[0])
			return
		}
		i := slices.IndexFunc(report.Violations, func(v history.Violation) bool { return v.Rule == rule })
		if i >= 0 {
			t.Logf("found %v after the start, and first %v", (before + report.First()).Round(time.Millisecond), report.Violations[i])
			return
		}
	}
	t.Errorf("in %v nothing was found that breaks the rule of %s", within, rule)
}
