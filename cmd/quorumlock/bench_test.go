package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// bench runs the verb with times that no busy machine exceeds.
func (w *ward) bench(args ...string) result {
	w.t.Helper()
	return run(w.t, []string{"QUORUMLOCK_NODES=" + w.nodes}, append([]string{"bench", "--for", "150ms", "--ttl", "60s", "--node-timeout", "10s"}, args...)...)
}

// benched runs it, and reads its JSON.
func (w *ward) benched(args ...string) (r benchReport) {
	w.t.Helper()
	got := w.bench(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != exitOK || got.talk != "" {
		w.t.Fatalf("bench %q = %d, %q, %q: %v, want 0 and a report alone", args, got.code, got.out, got.talk, err)
	}
	if faults := conforms(w.t, "bench.v1.json", got.out); faults != nil {
		w.t.Errorf("bench %q is not as its schema says: %q", args, faults)
	}
	return r
}

// keys are those that a server has.
func (w *ward) keys(server int) (names []string) {
	w.t.Helper()
	for _, e := range ask(w.t, w.servers[server-1].Addr, "KEYS", "*").Elems {
		names = append(names, e.Str)
	}
	return names
}

func TestBenchMeasuresAndLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	r := w.benched("--prefix", "orders:")
	if len(r.Parts) != 4 || len(r.Nodes) != 3 || r.MaxRate != 0 || r.Check != nil {
		t.Fatalf("the report is %+v, want four parts, three nodes, no bound and no check", r)
	}
	for _, p := range r.Parts {
		if p.Times == nil || p.Times.Samples == 0 || p.Rate <= 0 || p.Failed != 0 || p.Times.P50 > p.Times.P999 || p.Times.P999 > p.Times.Max {
			t.Errorf("with %d goroutines: %+v %+v, want cycles, no failure, and percentiles in order", p.Goroutines, p, p.Times)
		}
	}
	for _, n := range r.Nodes {
		if n.Trips == nil || n.Load == nil || n.Trips.Samples == 0 || n.Load.Samples == 0 || n.Keys != 0 || n.Unanswered != 0 {
			t.Errorf("%s: %+v, want its times idle and under load", n.Name, n)
		}
	}
	for server := range w.servers {
		if left := w.keys(server + 1); left != nil {
			t.Errorf("server %d has %q afterwards, want nothing", server+1, left)
		}
	}
}

func TestBenchWithFencesLeavesNoCounters(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.benched("--fences", "--prefix", "orders:")
	for server := range w.servers {
		if keys := w.keys(server + 1); len(keys) > 0 {
			t.Errorf("server %d has %q afterwards, want nothing", server+1, keys)
		}
		if stats := ask(t, w.servers[server].Addr, "INFO", "commandstats").Str; !strings.Contains(stats, "cmdstat_zadd") {
			t.Errorf("server %d got no ZADD, so the fences were not measured", server+1)
		}
	}
}

func TestBenchBesideKeysOfOthersIsBounded(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.do(2, "SET", "orders:42", "theirs")
	for _, tt := range []struct {
		args []string
		rate int
		why  string
	}{
		{nil, benchRate, w.servers[1].Addr + " holds 1 other keys"},
		{[]string{"--max-rate", "200"}, 200, "--max-rate"},
	} {
		r := w.benched(tt.args...)
		if r.MaxRate != tt.rate || !strings.Contains(r.MaxRateWhy, tt.why) {
			t.Errorf("bench %q is bounded to %d for %q, want %d for %q", tt.args, r.MaxRate, r.MaxRateWhy, tt.rate, tt.why)
		}
		for _, p := range r.Parts {
			if p.Times == nil {
				continue // a busy machine let nothing begin
			}
			elapsed := float64(p.Times.Samples) / p.Rate
			if most := math.Floor(elapsed*float64(tt.rate)) + 1; float64(p.Times.Samples) > most {
				t.Errorf("bench %q with %d goroutines ran %d cycles in %.3fs, want %v at most", tt.args, p.Goroutines, p.Times.Samples, elapsed, most)
			}
		}
	}
	if got := w.do(2, "GET", "orders:42"); got != "theirs" || len(w.keys(2)) != 1 || w.keys(1) != nil {
		t.Errorf("the key of others is %q, and the servers have %q and %q; want it alone, as it was", got, w.keys(1), w.keys(2))
	}
}

func TestAnInterruptedBenchLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var out, talk bytes.Buffer
	tl := &tool{out: &out, talk: &talk, getenv: func(string) string { return "" }}
	code := make(chan int, 1)
	go func() {
		code <- tl.run(ctx, []string{"bench", "--nodes", w.nodes, "--for", "1m", "--node-timeout", "5s"})
	}()
	for w.keys(1) == nil { // it holds locks
		select {
		case c := <-code:
			t.Fatalf("bench ended with %d before it was interrupted: %s", c, talk.String())
		default:
		}
	}
	cancel(interrupted(syscall.SIGINT))
	if c := <-code; c != 130 || out.Len() > 0 || !strings.Contains(talk.String(), "interrupt") {
		t.Errorf("interrupted, bench ends with %d, %q, %q; want 130, and to say so on stderr alone", c, out.String(), talk.String())
	}
	for server := range w.servers {
		if left := w.keys(server + 1); left != nil {
			t.Errorf("server %d has %q after an interrupt, want nothing", server+1, left)
		}
	}
}

func TestBenchWithoutAQuorumIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.servers[0].Kill()
	w.servers[1].Kill()
	if got := w.bench(); got.code != exitUnavailable || got.out != "" || !strings.Contains(got.talk, w.servers[0].Addr) {
		t.Errorf("bench at one of three nodes = %d, %q, %q; want %d and the nodes that are down", got.code, got.out, got.talk, exitUnavailable)
	}
	if left := w.keys(3); left != nil {
		t.Errorf("the server that is up has %q, want nothing", left)
	}
}

func TestBenchRefusesBadInputBeforeItAsksANode(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	asked := func() bool { return strings.Contains(w.do(1, "INFO", "commandstats"), "cmdstat_time:") }
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--for", "1ms"}, "--for: 1ms is not between 100ms and 1m0s"},
		{[]string{"--for", "1h"}, "--for: 1h0m0s is not between"},
		{[]string{"--max-rate", "-1"}, "--max-rate: -1"},
		{[]string{"--for", "100ms", "--max-rate", "99"}, "want at least 100, or a longer --for"},
		{[]string{"--max-rate", "many"}, "invalid argument"},
		{[]string{"orders:42"}, "unknown command"},
		{[]string{"--ttl", "1ms"}, "TTL: 1ms is not between"},
		{[]string{"-o", "nagios"}, "want one of table, json, jsonl"},
	} {
		got := run(t, []string{"QUORUMLOCK_NODES=" + w.nodes}, append([]string{"bench"}, tt.args...)...)
		if got.code != exitUsage || got.out != "" || !strings.Contains(got.talk, tt.says) {
			t.Errorf("bench %q = %d, %q, %q; want %d and %q", tt.args, got.code, got.out, got.talk, exitUsage, tt.says)
		}
	}
	if asked() {
		t.Error("a node was asked the time, want nothing sent")
	}
	if w.benched(); !asked() {
		t.Error("a measurement asks no node the time, so this test shows nothing")
	}
}

func TestBenchChecks(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	var got result
	for range 10 { // a machine that stood still for seconds is a slow one, and fails rightly
		got = w.bench("--check", "--for", "500ms", "--ttl", "10m", "--node-timeout", "1m")
		if pass := strings.HasSuffix(got.out, "\nPASS\n"); pass != (got.code == exitOK) || !pass && !strings.HasSuffix(got.out, "\nFAIL\n") {
			t.Fatalf("bench --check ends with %d and says %s%s; want 0 with PASS or 1 with FAIL", got.code, got.out, got.talk)
		}
		if got.code == exitOK {
			break
		}
	}
	if got.code != exitOK {
		t.Errorf("bench --check at fit nodes never passes: %d, %s%s; want 0 and PASS", got.code, got.out, got.talk)
	}
	w.do(3, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-lru")
	if got := w.bench("--check"); got.code != 1 || !strings.Contains(got.out, "no vote") || !strings.Contains(got.out, w.servers[2].Addr+" has no vote: ") {
		t.Errorf("bench --check with a node that evicts keys = %d, %s%s; want 1 and why it has no vote", got.code, got.out, got.talk)
	}
	if left := w.keys(3); left != nil {
		t.Errorf("the node without a vote has %q, want nothing", left)
	}
	w.servers[2].Kill()
	if got := w.bench("--check"); got.code != 1 || !strings.HasSuffix(got.out, "\nFAIL\n") || got.talk != "" {
		t.Errorf("bench --check with a node down = %d, %s%s; want 1 and FAIL", got.code, got.out, got.talk)
	}
}

func TestBenchSaysWhichNodeMayHaveKeysLeft(t *testing.T) {
	var talk bytes.Buffer
	b := &benching{tool: &tool{talk: &talk}}
	b.settings.TTL = time.Minute
	b.report.Nodes = []benchNode{{Name: "a", Trips: &benchTimes{}}, {Name: "b", Error: "down"}}
	b.sweep(t.Context(), []driver.Node{{Name: "a", Driver: cut{}}, {Name: "b", Driver: cut{}}})
	if want := "quorumlock: a did not confirm that the keys of the measurement are deleted: they expire within 1m0s\n"; talk.String() != want {
		t.Errorf("it says %q, want %q", talk.String(), want)
	}
}
