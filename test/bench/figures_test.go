package main

import (
	"math"
	"testing"
	"time"
)

const ms = 1_000_000 // a moment's milliseconds

func TestQuantiles(t *testing.T) {
	var l latencies
	for i := 1; i <= 1000; i++ {
		l.add(time.Duration(i) * 10 * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 5 * time.Millisecond, 0.99: 9900 * time.Microsecond, 1: 10 * time.Millisecond} {
		if off := float64(l.quantile(q)-want) / float64(want); off < 0 || off > 1.0/64 {
			t.Errorf("p%g of 10µs to 10ms = %v, want %v to 1/64 more", 100*q, l.quantile(q), want)
		}
	}
	if got := new(latencies).quantile(0.5); got != 0 {
		t.Errorf("the median of nothing = %v, want 0", got)
	}
	const last = (highest-lowest+1)<<fraction - 1
	for d, want := range map[time.Duration]int{-time.Second: 0, 1024: 0, 1024 + 16: 1, time.Hour: last} {
		if got := bucket(d); got != want {
			t.Errorf("bucket(%v) = %d, want %d", d, got, want)
		}
	}
	for i := range last {
		if bucket(ceiling(i)) != i || bucket(ceiling(i)+1) != i+1 {
			t.Fatalf("bucket %d does not end at %v", i, ceiling(i))
		}
	}
}

func TestTally(t *testing.T) {
	members := []Member{
		{Turns: []Turn{{0, 90 * ms, 99 * ms}, {100 * ms, 110 * ms, 120 * ms}, {121 * ms, 122 * ms, 130 * ms}}},
		{Turns: []Turn{{100 * ms, 140 * ms, 151 * ms}}, Failed: 2, Err: "refused"},
		{Turns: []Turn{{105 * ms, 150 * ms, 160 * ms}, {161 * ms, 1300 * ms, 1301 * ms}}},
		{Turns: []Turn{{Asked: 50 * ms}}}, // waits to this day
	}
	got := tally(members, Window{from: 100 * ms, to: 1100 * ms})
	for metric, want := range map[string]float64{
		"acquisitions": 4, // one came before, one after
		"changes":      2, // the first member's turns follow each other
		"most":         2, // the third came 1 ms before the second left
		"in use":       0.039,
		"failed":       2,
		"wait max":     1.05,                 // of who waits to this day
		"jain":         16.0 / (4 * (4 + 2)), // 2, 1, 1 and none
	} {
		if math.Abs(got[metric]-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", metric, got[metric], want)
		}
	}
	if p50 := got["wait p50"]; p50 < 0.010 || p50 > 0.0102 {
		t.Errorf("the median wait of 1, 10, 40 and 45 ms = %v, want 10 ms to 1/64 more", p50)
	}
	got = tally([]Member{{Turns: []Turn{{Asked: 50 * ms}}}}, Window{from: 100 * ms, to: 1100 * ms})
	if _, measured := got["wait p99"]; measured || !math.IsNaN(got["jain"]) {
		t.Errorf("p99 of no acquisition = %v and fairness %v, want neither", got["wait p99"], got["jain"])
	}
}

// A machine that is slow for a while is slow for both.
func TestRatioIsTakenInEachRound(t *testing.T) {
	var table Table
	ours, theirs, even := Key{Contender: "ours"}, Key{Contender: "theirs"}, Key{Contender: "even"}
	for _, round := range [][2]float64{{100, 50}, {10, 5}, {math.Inf(1), math.NaN()}, {100, 40}} { // what is no number is left out
		table.Add(ours, map[string]float64{"cycles": round[0]})
		table.Add(theirs, map[string]float64{"cycles": round[1]})
		table.Add(even, map[string]float64{"cycles": round[1], "allocs": math.NaN()})
	}
	table.Add(even, map[string]float64{"cycles": 60})
	if got := ratio("cycles", table.Row(ours), table.Row(theirs)); got != 2 {
		t.Errorf("ratio = %v, want 2, the median of 2, 2 and 2.5", got)
	}
	if got := table.Row(even).Median("cycles"); got != 45 {
		t.Errorf("the median of 50, 5, 40 and 60 = %v, want 45", got)
	}
	for _, got := range []float64{ratio("cycles", table.Row(ours), nil), table.Row(even).Median("allocs")} {
		if !math.IsNaN(got) {
			t.Errorf("what was not measured is %v, want no number", got)
		}
	}
}

func TestFloors(t *testing.T) {
	report := &Report{Tables: []Table{{Name: throughput.Name}, {Name: faults.Name}, {Name: handover.Name}, {Name: contended.Name}}}
	add := func(table int, situation, metric string, figures map[string]float64) {
		for name, value := range figures {
			report.Tables[table].Add(Key{name, []int{128, 128, 0, crowded}[table], situation}, map[string]float64{metric: value})
		}
	}
	add(0, "", "cycles", map[string]float64{
		"redlock go-redis": 1000, "redlock rueidis": 800, "redsync go-redis": 100, "redsync go-redis fail-fast": 250, "redsync rueidis": 100,
	})
	add(0, "", "allocs", map[string]float64{"redlock rueidis": 11})
	add(1, hung(1).Name, "keys left", map[string]float64{"redlock redigo": 2, "redsync redigo fail-fast": 5})
	add(2, oneWaiter, "p50", map[string]float64{
		"redlock go-redis": 0.001, "redlock rueidis": 0.001, "redsync go-redis": 0.09, "redsync rueidis": 0.08, "redsync rueidis polling 1-5 ms": 0.005,
	})
	add(3, processTitle, "changes", map[string]float64{"redlock go-redis": 700, "redsync go-redis": 20, "redsync go-redis polling 1-5 ms": 350})
	add(3, processTitle, "jain", map[string]float64{"redlock go-redis": 0.99, "redlock redigo": 0.95, "redsync go-redis": 0.7})
	rulings := map[string]Ruling{}
	for _, r := range judge(report) {
		rulings[r.Text] = r
	}
	for text, want := range map[string][2]string{
		"cycles against redsync, both over go-redis, no auto-pipeline, 128 goroutines": {"4.00", "MISSED by 20.0 %"},
		"cycles against redsync, both over rueidis, no auto-pipeline, 128 goroutines":  {"8.00", "met"},
		"cycles of our best against redsync's best mode of any kind, 128 goroutines":   {"4.00", "met"},
		"cycles against redsync, both over go-redis, no auto-pipeline, 1 goroutine":    {"–", "not measured"},
		"allocations a cycle over rueidis, 128 goroutines":                             {"11.0", "met"},
		"keys left, 1 node hung": {"2", "MISSED"},
		"hand-over p50, times shorter than redsync's with its default delay, same client, our best": {"90.00", "MISSED by 10.0 %"},
		"hand-over p50, times shorter than redsync's with polling 1-5 ms, same client, our best":    {"5.00", "met"},
		"changes of owner against redsync, both over go-redis, one key, 4 processes, 64 goroutines": {"2.00", "MISSED by 42.9 %"},
		"Jain's index of fairness, one key, 4 processes":                                            {"0.950", "MISSED by 1.0 %"},
		"most holders of one key": {"–", "not measured"},
	} {
		if got := rulings[text]; got.Measured != want[0] || got.Verdict != want[1] {
			t.Errorf("%s: measured %q, %q; want %q", text, got.Measured, got.Verdict, want)
		}
	}
}
