// Package bench measures this library beside redsync, over the same clients and on the same servers of this machine, and
// how cost grows. Its benchmarks need redis-server or valkey-server in PATH.
//
//	make bench                                  # all in rounds, compared by benchstat
//	go test -bench Cycles/goroutines=128        # one of them, once
//
// In one run the variants take turns, so ratios mean something. In a name, lib is the variant of the library, and trouble
// what is wrong with some nodes. In a metric, p50 and p99 are percentiles.
package bench

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis says nothing of nodes that are gone
	if part := os.Getenv(partKey); part != "" {
		serve(part)
		return
	}
	leak.Main(m)
}

// A floor is the least ratio of a metric between two benchmarks: the median over the rounds of a run.
type floor struct {
	metric, over, under string
	least               float64
}

// floors are what the library promises itself.
var floors = []floor{
	{"cycles/s", "Cycles/goroutines=128/client=go-redis/lib=quorumlock/trouble=none", "Cycles/goroutines=128/client=go-redis/lib=redsync/trouble=none", 5},
	{"cycles/s", "Cycles/goroutines=128/client=redigo/lib=quorumlock/trouble=none", "Cycles/goroutines=128/client=redigo/lib=redsync/trouble=none", 4.5},
	{"cycles/s", "Cycles/goroutines=128/client=rueidis/lib=quorumlock/trouble=none", "Cycles/goroutines=128/client=rueidis/lib=redsync/trouble=none", 4},
	{"cycles/s", "Cycles/goroutines=128/client=go-redis/lib=quorumlock/trouble=none", "Cycles/goroutines=128/client=go-redis/lib=redsync-auto-pipeline-fail-fast/trouble=none", 2},
	{"cycles/s", "Cycles/goroutines=128/client=go-redis/lib=quorumlock-fences/trouble=none", "Cycles/goroutines=128/client=go-redis/lib=quorumlock/trouble=none", 0.5},
	{"cycles/s", "Trouble/goroutines=128/client=go-redis/lib=quorumlock/trouble=2-hung", "Trouble/goroutines=128/client=go-redis/lib=quorumlock/trouble=none", 0.8},
	{"cycles/s", "Far/keys=one/goroutines=16/client=go-redis/lib=quorumlock/trouble=2-farther-2ms", "Far/keys=one/goroutines=16/client=go-redis/lib=quorumlock/trouble=none", 0.95},
	// redsync's hand-over is its pause, as long on any machine: where all else takes twice as long, the ratio is half.
	{"wait-p50-ns", "HandOver/client=go-redis/lib=redsync", "HandOver/client=go-redis/lib=quorumlock", 50},
	{"changes/s", "Contended/processes=4/client=go-redis/lib=quorumlock", "Contended/processes=4/client=go-redis/lib=redsync", 3.5},
	{"wait-p99-ns", "Contended/processes=4/client=go-redis/lib=redsync", "Contended/processes=4/client=go-redis/lib=quorumlock", 8},
}

// values are the figures of a benchmark in what benchmarks have printed, one of each round.
func values(printed, name, metric string) (all []float64) {
	line := regexp.MustCompile(`(?m)^Benchmark` + regexp.QuoteMeta(name) + `(?:-\d+)?\s.*?([0-9.e+]+) ` + regexp.QuoteMeta(metric) + `(?:\s|$)`)
	for _, found := range line.FindAllStringSubmatch(printed, -1) {
		all = append(all, must(strconv.ParseFloat(found[1], 64)))
	}
	return all
}

// ratio is no number where a benchmark was not run.
func (f floor) ratio(printed string) float64 {
	var ratios []float64
	over, under := values(printed, f.over, f.metric), values(printed, f.under, f.metric)
	for i := range min(len(over), len(under)) {
		ratios = append(ratios, over[i]/under[i])
	}
	if len(ratios) == 0 {
		return math.NaN()
	}
	slices.Sort(ratios)
	return (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2
}

var judged = flag.String("floors", "", "hold the figures in this `file` against the floors, which needs a run of all benchmarks")

// Without -floors there is no run to judge: a machine that is slow or busy fails no test.
func TestFloors(t *testing.T) {
	if *judged == "" {
		return
	}
	printed := string(must(os.ReadFile(*judged)))
	for _, f := range floors {
		got, verdict := f.ratio(printed), t.Logf
		if !(got >= f.least) {
			verdict = t.Errorf
		}
		verdict("%.2f, want at least %.2f: %s of %s to %s", got, f.least, f.metric, f.over, f.under)
	}
}

// All benchmarks get through, once and small, and have the figures that floors want: on a machine that is
// busy, when they run for longer.
func TestBenchmarksRun(t *testing.T) {
	redisserver.Find(t)
	patient.AtScales(t, func(scale time.Duration) error {
		command := exec.CommandContext(t.Context(), must(os.Executable()), "-test.run=^$", "-test.bench=.", fmt.Sprintf("-test.benchtime=%dx", scale), "-test.short") //nolint:gosec // this program
		var talk strings.Builder
		command.Stderr = &talk // clients log there, in the middle of a benchmark's line
		out, err := command.Output()
		printed := string(out)
		if err != nil {
			t.Fatalf("%v:\n%s%s", err, printed, talk.String())
		}
		for _, f := range floors {
			if math.IsNaN(f.ratio(printed)) {
				err = errors.Join(err, fmt.Errorf("%s and %s have no %s", f.over, f.under, f.metric))
			}
		}
		for name, want := range map[string]int{"ScaleNodes": 14, "ScaleFleet": 6} {
			if got := len(regexp.MustCompile(`(?m)^Benchmark`+name+`/.*\d (cycles/s|done-s)`).FindAllString(printed, -1)); got != want {
				t.Errorf("Benchmark%s has %d lines, want %d:\n%s", name, got, want, printed)
			}
		}
		return err
	})
}
