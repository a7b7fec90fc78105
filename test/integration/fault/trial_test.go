package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/cluster"
	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// needServers skips a test where its servers cannot run.
func needServers(t *testing.T) {
	t.Helper()
	if err := server.Lacks(); server.Missing(err) && !redisserver.Required("processes") {
		t.Skip(err)
	}
}

// short is a trial that a test can wait for, with another seed each time.
func short(t *testing.T) Trial {
	t.Helper()
	needServers(t)
	program, err := os.Executable()
	must(t, err)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return Trial{
		Seed: seed, For: 8 * time.Second, Program: program,
		Clients: []string{"goredis", "redigo", "rueidis"},
		Job:     worker.Job{Library: "quorumlock", Workers: 8, Keys: 48, Lease: time.Second, Mix: worker.Ordinary},
	}
}

// try runs the trial on a cluster of its own.
func try(t *testing.T, trial Trial, durable []bool) *Report {
	t.Helper()
	c, err := cluster.Processes(durable, len(trial.Clients))
	must(t, err)
	report, err := trial.Run(t.Context(), c)
	must(t, errors.Join(err, c.Close()))
	return report
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A hot key is tried for by all clients, held by one, which renews it, and released.
func TestAHotKeyIsHeldAndTriedFor(t *testing.T) {
	trial := short(t)
	trial.Kinds = []schedule.Kind{schedule.HotKey}
	patient.Until(t, "a trial has a hot key that is tried for, and held for longer than a lease", func() bool {
		report := try(t, trial, make([]bool, five))
		if !report.Clean() {
			t.Fatalf("with the seed %d:\n%v", trial.Seed, report)
		}
		trial.Seed++
		held := time.Duration(0)
		for _, had := range report.Log.Tenures {
			if had.Key == worker.Rushed && had.Release.From > 0 {
				held = max(held, time.Duration(had.Ended-had.Had))
			}
		}
		return held >= trial.Job.Lease && report.Log.Tries >= 1000 && len(report.Log.Faults) > 0
	})
}

// What a process leaves open, or a client on the nodes, is found.
func TestWhatIsLeftBehindIsFound(t *testing.T) {
	needServers(t)
	c, err := cluster.Of(1, 1, func(int) (*server.Process, error) { return server.Launch() })
	must(t, err)
	defer func() { must(t, c.Close()) }()
	addr := c.Masters()[0]
	for _, tt := range []struct {
		what string
		do   []string
		want string // or "" if it may be there
	}{
		{"a record of the guard", []string{"SET", "ql:memory", "x"}, ""},
		{"a set of counters", []string{"ZADD", "ql:fences:{1}", "1", "k"}, ""},
		{"a number of permits that will expire", []string{"SET", "ql:permits:{k}", "1", "PX", "20000"}, ""},
		{"a number of permits that never expires", []string{"SET", "ql:permits:{l}", "1"}, `the key "ql:permits:{l}"`},
		{"a lock", []string{"SET", "k", "token", "PX", "1000000"}, `the key "k"`},
	} {
		_, err := server.Do(addr, tt.do...)
		must(t, err)
		found, err := leftOn(addr)
		must(t, err)
		if all := strings.Join(found, ", "); (tt.want == "") != (len(found) == 0) || !strings.Contains(all, tt.want) {
			t.Errorf("%s: found %q, want %q", tt.what, all, tt.want)
		}
		if tt.want != "" {
			_, err := server.Do(addr, "DEL", tt.do[1])
			must(t, err)
		}
	}
}

// TestMain is also the worker of its own tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		if err := run(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leak.Main(m)
}

// The figures of a trial take the place of the last ones in its row, and of nothing else.
func TestFiguresGoIntoTheRowOfTheirTrial(t *testing.T) {
	const page = "# One key\n\n| trial | had |\n|---|---|\n| a million, as above | 1 |\n| one key (`-keys 1`) |%s\n| one key more | 3 |\n\nThe end.\n"
	path := filepath.Join(t.TempDir(), "page.md")
	must(t, os.WriteFile(path, fmt.Appendf(nil, page, " 2 |"), 0o600))
	r := Report{Took: 61 * time.Second}
	r.Tenures, r.Shared, r.Visits, r.Unknown, r.Rounds, r.Ownerless, r.LongestWait = 1234567, 999, 1000, 7, 12, 0, 1249*time.Millisecond
	r.Faults = map[string]int{"kill": 2, "pause": 3}
	must(t, r.record(path, "one key ("))
	got, err := os.ReadFile(path) //nolint:gosec // this test's own
	must(t, err)
	if want := fmt.Sprintf(page, " 1,234,567 | 999 | 12 (0) | 5 | 1m1s | 1,000 (7) | 1.2s |"); string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	for _, trial := range []string{"one key", "two keys"} {
		if r.record(path, trial) == nil {
			t.Errorf("a row was found for the trial %q", trial)
		}
	}
}
