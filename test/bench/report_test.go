package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 2, 9}, 3},
	} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing = %v, want no number", got)
	}
}

// A machine that is slow for a while is slow for both.
func TestRatioIsTakenInEachRound(t *testing.T) {
	ours := &Row{Rounds: map[string][]float64{"cycles": {100, 10, 100}}}
	theirs := &Row{Rounds: map[string][]float64{"cycles": {50, 5, 40}}}
	if got := ratio("cycles", ours, theirs); got != 2 {
		t.Errorf("ratio = %v, want 2, the median of 2, 2 and 2.5", got)
	}
	if got := ratio("cycles", ours, nil); !math.IsNaN(got) {
		t.Errorf("the ratio to nothing = %v, want no number", got)
	}
}

func TestAddLeavesOutWhatIsNoNumber(t *testing.T) {
	var table Table
	key := Key{Contender: "redlock redigo", Goroutines: 16}
	table.Add(key, map[string]float64{"cycles": 0, "allocs": math.Inf(1)})
	table.Add(key, map[string]float64{"cycles": 4, "allocs": 10})
	if got := table.Row(key).Median("cycles"); got != 2 {
		t.Errorf("median of cycles = %v, want 2", got)
	}
	if got := table.Row(key).Median("allocs"); got != 10 {
		t.Errorf("median of allocations = %v, want 10, the only number", got)
	}
}

func TestFloors(t *testing.T) {
	report := &Report{Tables: []Table{{Name: throughput.Name}, {Name: "leftovers"}, {Name: handover.Name}, {Name: processes.Name}}}
	cycles := func(name string, perSecond float64) {
		report.Tables[0].Add(Key{Contender: name, Goroutines: 128}, map[string]float64{"cycles": perSecond, "allocs": 11})
	}
	cycles("redlock go-redis", 1000)
	cycles("redlock rueidis", 800)
	cycles("redsync go-redis", 100)
	cycles("redsync go-redis fail-fast", 250)
	cycles("redsync rueidis", 100)
	report.Tables[1].Add(Key{"redlock redigo", 128, hung(1).Name}, map[string]float64{"keys left": 2})
	report.Tables[1].Add(Key{"redsync redigo fail-fast", 128, hung(1).Name}, map[string]float64{"keys left": 5})

	handovers := func(name string, p50 float64) {
		report.Tables[2].Add(Key{Contender: name, Situation: oneWaiter}, map[string]float64{"p50": p50})
	}
	handovers("redlock go-redis", 0.001)
	handovers("redlock rueidis", 0.001)
	handovers("redsync go-redis", 0.09)
	handovers("redsync rueidis", 0.08)
	handovers("redsync rueidis polling 1-5 ms", 0.005)
	crowd := func(name string, changes, jain float64) {
		report.Tables[3].Add(Key{name, crowded, processTitle}, map[string]float64{"changes": changes, "jain": jain})
	}
	crowd("redlock go-redis", 700, 0.99)
	crowd("redlock redigo", 700, 0.95)
	crowd("redsync go-redis", 20, 0.9)
	crowd("redsync go-redis polling 1-5 ms", 350, 0.7)

	rulings := map[string]Ruling{}
	for _, r := range judge(report) {
		rulings[r.Text] = r
	}
	for _, tt := range []struct{ text, measured, verdict string }{
		{"cycles against redsync, both over go-redis, no auto-pipeline, 128 goroutines", "4.00", "MISSED by 20.0 %"},
		{"cycles against redsync, both over rueidis, no auto-pipeline, 128 goroutines", "8.00", "met"},
		{"cycles of our best against redsync's best mode of any kind, 128 goroutines", "4.00", "met"},
		{"cycles against redsync, both over go-redis, no auto-pipeline, 1 goroutine", "–", "not measured"},
		{"allocations a cycle over rueidis, 128 goroutines", "11.0", "met"},
		{"keys left after 50,000 cycles, 1 node hung", "2", "MISSED"},
		{"hand-over p50, times shorter than redsync's with its default delay, same client, our best", "90.0", "MISSED by 10.0 %"},
		{"hand-over p50, times shorter than redsync's with polling 1-5 ms, same client, our best", "5.0", "met"},
		{"changes of owner against redsync, both over go-redis, one key, 4 processes, 64 goroutines", "2.00", "MISSED by 42.9 %"},
		{"changes of owner against redsync, both over rueidis, one key, 4 processes, 64 goroutines", "–", "not measured"},
		{"Jain's index of fairness, one key, processes", "0.950", "MISSED by 1.0 %"},
	} {
		if got := rulings[tt.text]; got.Measured != tt.measured || got.Verdict != tt.verdict {
			t.Errorf("%s: measured %q, %q; want %q, %q", tt.text, got.Measured, got.Verdict, tt.measured, tt.verdict)
		}
	}
}

func TestEachReleaseIsALineOfTheHistory(t *testing.T) {
	folder := t.TempDir()
	of := func(date string, cycles float64) *Report {
		r := &Report{Machine: Machine{Date: date, Processor: "one", Cores: 2}, Tables: []Table{{Name: throughput.Name}}}
		r.Tables[0].Add(Key{Contender: "redlock redigo", Goroutines: 128}, map[string]float64{"cycles": cycles, "share": cycles / 1000})
		return r
	}
	for _, step := range []struct {
		version string
		cycles  float64
		says    string
		lines   int
	}{
		{"", 400, "", 0},
		{"v0.1.0", 500, "", 1},
		{"", 600, "+20 %", 1},
		{"v0.2.0", 250, "-50 %", 2},
		{"v0.2.0", 750, "+50 %", 2}, // measured once more
		{"", 750, "+0 %", 2},
	} {
		r := of("2026-01-01", step.cycles)
		if err := r.remember(folder, step.version); err != nil {
			t.Fatal(err)
		}
		if text := r.text(); !strings.Contains(text, step.says) || (step.says == "") == strings.Contains(text, "since v") {
			t.Errorf("with %v cycles it says %q, want %q", step.cycles, text, step.says)
		}
		if len(r.History) != step.lines {
			t.Errorf("after %q the history has %d lines, want %d", step.version, len(r.History), step.lines)
		}
		if err := r.write(filepath.Join(folder, "bench.json")); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := of("2026-01-02", 1)
	elsewhere.Machine.Processor = "another"
	if err := elsewhere.remember(folder, ""); err != nil {
		t.Fatal(err)
	}
	if text := elsewhere.text(); !strings.Contains(text, "only shares and ratios") {
		t.Errorf("on another machine it says %q", text)
	}
}
