package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

// The cases get through with one contender of ours and one peer, and their report can
// be written, read and drawn.
func TestCases(t *testing.T) {
	bench := newBench(t)
	bench.Contenders = []Contender{find("redlock", "redigo", ""), find("redsync", "redigo", failFast)}
	some := []Case{throughput, hooks, faults, leftovers, outage} // the others differ in numbers alone
	report, err := measure(t.Context(), bench, some)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range some {
		contenders := bench.Contenders
		if c.Name == leftovers.Name {
			contenders = contenders[:1] // where it must be quick
		}
		if c.Name == hooks.Name {
			contenders = hooked()
		}
		complete(t, report, c, contenders)
	}

	folder := t.TempDir()
	if err := errors.Join(report.write(filepath.Join(folder, "bench.json")), drawPicture(folder)); err != nil {
		t.Fatal(err)
	}
	text := report.text()
	for _, want := range []string{"redlock redigo", "redsync redigo fail-fast", "16 goroutines", "floor"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q", want)
		}
	}
}

// The cases in which locks are waited for get through, too, and no lock has two holders.
func TestWaitingCases(t *testing.T) {
	bench := newBench(t)
	bench.Waiters = []Contender{find("redlock", "redigo", ""), find("redsync", "go-redis", polling)}
	report, err := measure(t.Context(), bench, []Case{handover, contended, processes, permits, sets, parked, cut, fleet})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Case{handover, contended, processes} {
		complete(t, report, c, bench.Waiters)
	}
	complete(t, report, fleet, []Contender{find("redlock", "go-redis", "")})
	complete(t, report, permits, slices.DeleteFunc(permitters(), func(c Contender) bool { return c.Mode == weightedMode }))
	complete(t, report, sets, setTakers())
	for _, c := range []Case{parked, cut} {
		complete(t, report, c, bench.Waiters[:1])
	}
	for _, table := range report.Tables {
		for _, row := range table.Rows {
			if n := row.Median("overlaps"); n > 0 {
				t.Errorf("%s: %s had two holders at once %v times, want never", table.Name, row.Contender, n)
			}
		}
	}
}

// newBench is a quick one, on servers that end with the test.
func newBench(t *testing.T) *Bench {
	t.Helper()
	if _, err := server.Find(); errors.Is(err, server.ErrNoServer) && os.Getenv("QUORUMLOCK_REQUIRE") == "" {
		t.Skip(err)
	}
	site, err := startSite()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Close(); err != nil {
			t.Errorf("closing the nodes: %v", err)
		}
	})
	return &Bench{Rounds: 1, Duration: 10 * time.Millisecond, Goroutines: 16, Quick: true, Site: site, Log: log.New(io.Discard, "", 0)}
}

// complete checks that the case has all figures of the contenders.
func complete(t *testing.T, report *Report, c Case, contenders []Contender) {
	t.Helper()
	for _, contender := range contenders {
		row := rowOf(report.Table(c.Name), contender)
		if row == nil {
			t.Errorf("%s has no row of %s", c.Name, contender.Name())
			continue
		}
		for _, column := range c.Columns {
			if len(row.Rounds[column.Metric]) == 0 {
				t.Errorf("%s: %s has no %q", c.Name, contender.Name(), column.Metric)
			}
		}
	}
}

func rowOf(t *Table, c Contender) *Row {
	for _, row := range t.Rows {
		if row.Contender == c.Name() {
			return row
		}
	}
	return nil
}

func TestCallsThatDoNotWaitForEachOther(t *testing.T) {
	bench := newBench(t)
	bench.Contenders = []Contender{find("redlock", "redigo", ""), find("redsync", "redigo", failFast)}
	report, err := measure(t.Context(), bench, []Case{openLoop})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range bench.Contenders {
		for _, share := range loads {
			row := report.Table(openLoop.Name).Row(Key{Contender: c.Name(), Situation: fmt.Sprintf("%.1f of the capacity", share)})
			if row == nil || row.Median("cycles")+row.Median("failed") == 0 {
				t.Errorf("%s at %v of the capacity: %v, want calls that ended", c.Name(), share, row)
			}
		}
	}
}
