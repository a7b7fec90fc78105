package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// steadyBench is a report on real servers, two of which are down, with the figures replaced by
// those of a pattern.
func steadyBench(t *testing.T) (r benchReport) {
	t.Helper()
	w := five(t)
	w.do(3, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	got := w.bench("-o", "json")
	text := got.out
	for i, s := range w.servers {
		text = strings.ReplaceAll(text, s.Addr, fmt.Sprintf("10.0.0.%d:6379", i+1))
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("bench = %d, %q: %v", got.code, got.talk, err)
	}
	pattern := func(unit float64) *benchTimes {
		return &benchTimes{Samples: 1000, P50: unit, P90: 2 * unit, P99: 4 * unit, P999: 8 * unit, Max: 16 * unit}
	}
	r.TTL, r.NodeTimeout, r.MaxRate, r.MaxRateWhy = 30, 0.25, 0, ""
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Error == "" {
			n.Trips, n.Load, n.Unanswered = pattern(0.000111), pattern(0.00111*float64(i+1)), 0
		} else {
			n.Error = "connection refused"
		}
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		p.Rate, p.Times, p.Failed, p.Error = 1234*float64(i+1), pattern(0.000567*float64(i+1)), 0, ""
	}
	r.advise()
	r.judge()
	return r
}

func TestTheScreensOfBench(t *testing.T) {
	t.Parallel()
	r := steadyBench(t)
	for _, tt := range []struct {
		name string
		env  map[string]string
	}{
		{"bench-80.txt", map[string]string{"COLUMNS": "80"}},
		{"bench-80-colour.txt", map[string]string{"COLUMNS": "80", "CLICOLOR_FORCE": "1"}},
		{"bench-200.txt", map[string]string{"COLUMNS": "200"}},
		{"bench-200-colour.txt", map[string]string{"COLUMNS": "200", "CLICOLOR_FORCE": "1"}},
	} {
		var out bytes.Buffer
		b := &benching{tool: &tool{out: &out, getenv: func(name string) string { return tt.env[name] }, format: formatTable}, report: r}
		if err := b.write(); err != nil {
			t.Fatal(err)
		}
		golden(t, tt.name, out.String())
		for line := range strings.Lines(out.String()) {
			bare := regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(strings.TrimRight(line, "\n"), "")
			pasted := strings.Contains(bare, "redlock.With")
			if width := len([]rune(bare)); tt.env["COLUMNS"] == "80" && width > 80 && !pasted {
				t.Errorf("a line has %d columns on a screen of 80: %q", width, bare)
			}
		}
	}
}

func TestTheJSONOfBenchIsAsItsSchemaSays(t *testing.T) {
	t.Parallel()
	w := five(t)
	w.do(3, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	got := w.bench("-o", "json", "--check")
	if faults := conforms(t, "bench.v1.json", got.out); faults != nil || got.code != 1 {
		t.Errorf("bench -o json --check with nodes down = %d, %s; faults: %q", got.code, got.out, faults)
	}
	lines := 0
	for line := range strings.Lines(w.bench("-o", "jsonl").out) {
		var p benchPart
		if err := json.Unmarshal([]byte(line), &p); err != nil || p.Goroutines == 0 {
			t.Errorf("a line of bench -o jsonl is no part: %q, %v", line, err)
		}
		lines++
	}
	if lines != 4 {
		t.Errorf("bench -o jsonl has %d lines, want one for each part", lines)
	}
}

// measured is a report without a fault.
func measured() benchReport {
	r := benchReport{TTL: 30, NodeTimeout: 0.25, Nodes: []benchNode{
		{Name: "a", Load: &benchTimes{P999: 0.010, Max: 0.020}}, {Name: "b", Load: &benchTimes{P999: 0.030, Max: 0.040}},
	}}
	for i, goroutines := range []int{1, 16, 128, 4} {
		r.Parts = append(r.Parts, benchPart{Goroutines: goroutines, Rate: []float64{1000, 9500, 10000, 300}[i], Times: &benchTimes{P99: 0.01, P999: 0.050, Max: 0.100}})
	}
	r.Parts[3].Times = &benchTimes{P999: 100, Max: 100} // waiting is not judged
	return r
}

func TestSettingsFollowFromTheFigures(t *testing.T) {
	for _, tt := range []struct {
		name       string
		change     func(r *benchReport)
		flags      string
		goroutines int
	}{
		{"as it is", func(*benchReport) {}, "--ttl 2s --node-timeout 200ms", 16}, // 4 × 30 ms is 120, so 200 ms
		{"a node with a long pause", func(r *benchReport) { r.Nodes[0].Load.Max = 0.4 }, "--ttl 10s --node-timeout 1s", 16},
		{"fast nodes", func(r *benchReport) {
			for i := range r.Nodes {
				r.Nodes[i].Load = &benchTimes{P999: 0.001, Max: 0.002}
			}
		}, "--ttl 1s --node-timeout 50ms", 16},
		{"slow cycles", func(r *benchReport) { r.Parts[2].Times.P999 = 0.3 }, "--ttl 10s --node-timeout 200ms", 16},
		{"one slow cycle", func(r *benchReport) { r.Parts[2].Times.Max = 1.2 }, "--ttl 5s --node-timeout 200ms", 16},
		{"more goroutines pay", func(r *benchReport) { r.Parts[2].Rate = 20000 }, "--ttl 2s --node-timeout 200ms", 128},
		{"a bound", func(r *benchReport) { r.MaxRate = 10000 }, "--ttl 2s --node-timeout 200ms", 0},
	} {
		r := measured()
		tt.change(&r)
		if r.advise(); r.Advice.Flags != tt.flags || r.Advice.Goroutines != tt.goroutines {
			t.Errorf("%s: %q and %d goroutines, want %q and %d", tt.name, r.Advice.Flags, r.Advice.Goroutines, tt.flags, tt.goroutines)
		}
	}
	r := measured()
	r.Nodes[1].Unanswered = 3
	r.advise()
	if why := strings.Join(r.Advice.Why, " "); !strings.Contains(why, "b left 3 batches without an answer") || r.Advice.Options != "redlock.WithTTL(2*time.Second), redlock.WithNodeTimeout(200*time.Millisecond); group.SetLimit(16)" {
		t.Errorf("the advice is %q, because %s; want options for Go, and what was not answered", r.Advice.Options, why)
	}
}

func TestEachLimitOfTheCheckCanBeMissed(t *testing.T) {
	for _, tt := range []struct {
		missed string
		change func(r *benchReport)
	}{
		{"", func(*benchReport) {}},
		{"", func(r *benchReport) { r.MaxRate, r.Parts[2].Rate = 50, 41 }},
		{"nodes", func(r *benchReport) { r.Nodes = append(r.Nodes, benchNode{Name: "c", Error: "down"}) }},
		{"failed", func(r *benchReport) { r.Parts[3].Failed = 1 }},
		{"node_p999_s", func(r *benchReport) { r.Nodes[0].Load.P999 = 0.126 }},
		{"cycle_p999_s", func(r *benchReport) { r.Parts[1].Times.P999 = 1.6 }},
		{"cycle_max_s", func(r *benchReport) { r.Parts[0].Times.Max = 7.6 }},
		{"cycles_per_s", func(r *benchReport) { r.Parts[2].Rate = 99 }},
	} {
		r := measured()
		tt.change(&r)
		r.judge()
		var missed []string
		for _, l := range r.Check.Limits {
			if !l.Pass {
				missed = append(missed, l.ID)
			}
		}
		if strings.Join(missed, " ") != tt.missed || r.Check.Pass != (tt.missed == "") {
			t.Errorf("pass %v, and %q are missed; want %q", r.Check.Pass, missed, tt.missed)
		}
	}
}

func TestAPacerLetsNoMoreBeginThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{gap: 10 * time.Millisecond}
		begun := time.Now()
		end := begun.Add(time.Second)
		var mu sync.Mutex
		var at []time.Duration
		var group sync.WaitGroup
		for range benchMost {
			group.Go(func() {
				for p.wait(t.Context(), end) {
					mu.Lock()
					at = append(at, time.Since(begun))
					mu.Unlock()
				}
			})
		}
		group.Wait()
		slices.Sort(at)
		if len(at) != 100 {
			t.Errorf("in 1s %d began, want 100", len(at))
		}
		for i, d := range at {
			if d != time.Duration(i)*p.gap {
				t.Errorf("number %d began after %v, want %v", i, d, time.Duration(i)*p.gap)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if (&pacer{}).wait(ctx, time.Now().Add(time.Second)) || (&pacer{gap: time.Hour}).wait(ctx, time.Now().Add(time.Second)) {
			t.Error("a cycle may begin after the end of its context, want none")
		}
	})
}

func TestANodeSaysHowManyKeysItHolds(t *testing.T) {
	for info, want := range map[string]int64{
		"":                           -1,
		"# Server\r\n# Keyspace\r\n": 0,
		"# Keyspace\r\ndb0:keys=2,expires=1,avg_ttl=0\r\ndb7:keys=40,expires=0\r\n": 42,
		"cluster_enabled:1\r\n# Keyspace\r\n":                                       -1, // the others of the cluster may hold some
		"# Keyspace\r\ndb0:keys=?,expires=1\r\n":                                    -1,
	} {
		if got := keysOf(info); got != want {
			t.Errorf("%q: %d keys, want %d", info, got, want)
		}
	}
	b := &benching{report: benchReport{Nodes: []benchNode{{Name: "a", Keys: -1, Error: "down"}, {Name: "b", Keys: -1}}}}
	if b.bound(); b.report.MaxRate != benchRate || !strings.Contains(b.report.MaxRateWhy, "b does not say") || b.pacer.gap != time.Millisecond {
		t.Errorf("where a node does not say, the bound is %d (%v) for %q; want %d", b.report.MaxRate, b.pacer.gap, b.report.MaxRateWhy, benchRate)
	}
}

func TestPercentilesAreNearestRanks(t *testing.T) {
	var samples []time.Duration
	for i := range 2000 {
		samples = append(samples, time.Duration(2000-i)*time.Second)
	}
	if got, want := *times(samples), (benchTimes{Samples: 2000, P50: 1000, P90: 1800, P99: 1980, P999: 1998, Max: 2000}); got != want {
		t.Errorf("of 1 to 2000s: %+v, want %+v", got, want)
	}
	if got, want := *times(samples[:1]), (benchTimes{Samples: 1, P50: 1, P90: 1, P99: 1, P999: 1, Max: 1}); got != want {
		t.Errorf("of one: %+v, want %+v", got, want)
	}
	if times(nil) != nil {
		t.Error("of none there are times, want nil")
	}
}
