package main

import (
	"math"
	"testing"
)

const ms = 1_000_000 // a moment's milliseconds

func TestTally(t *testing.T) {
	members := []Member{
		{Turns: []Turn{{Asked: 0, Got: 90 * ms, Left: 99 * ms}, {Asked: 100 * ms, Got: 110 * ms, Left: 120 * ms}, {Asked: 121 * ms, Got: 122 * ms, Left: 130 * ms}}},
		{Turns: []Turn{{Asked: 100 * ms, Got: 140 * ms, Left: 151 * ms}}, Failed: 2, Err: "refused"},
		{Turns: []Turn{{Asked: 105 * ms, Got: 150 * ms, Left: 160 * ms}, {Asked: 161 * ms, Got: 1300 * ms, Left: 1301 * ms}}},
		{Turns: []Turn{{Asked: 50 * ms}}}, // waits to this day
	}
	got := tally(members, Window{from: 100 * ms, to: 1100 * ms})
	for metric, want := range map[string]float64{
		"acquisitions": 4, // one came before, one after
		"changes":      2, // the first member's turns follow each other
		"overlaps":     1, // the third came 1 ms before the second left
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
}

func TestTallyOfNobody(t *testing.T) {
	got := tally([]Member{{Turns: []Turn{{Asked: 50 * ms}}}}, Window{from: 100 * ms, to: 1100 * ms})
	if _, measured := got["wait p99"]; measured || !math.IsNaN(got["jain"]) {
		t.Errorf("p99 of no acquisition = %v and fairness %v, want neither", got["wait p99"], got["jain"])
	}
}

func TestJain(t *testing.T) {
	for _, tt := range []struct {
		shares []float64
		want   float64
	}{
		{[]float64{7, 7, 7, 7}, 1},
		{[]float64{9, 0, 0, 0}, 0.25},
		{[]float64{3, 1}, 0.8},
	} {
		if got := jain(tt.shares); got != tt.want {
			t.Errorf("jain(%v) = %v, want %v", tt.shares, got, tt.want)
		}
	}
}
