package history

import (
	"testing"
	"time"
)

func TestALossCountsWhereNothingWasInTheWayForALease(t *testing.T) {
	for _, tt := range []struct {
		name    string
		lost    Moment
		healthy []Span
		stopped []Span
		starved []Span
		want    int
	}{
		{"it was not lost", 0, []Span{{0, 100 * ms}}, nil, nil, 0},
		{"all was well", 50 * ms, []Span{{0, 100 * ms}}, nil, nil, 1},
		{"all was well for the last lease", 50 * ms, []Span{{40 * ms, 50 * ms}}, nil, nil, 1},
		{"nodes were not well at its begin", 50 * ms, []Span{{0, 39 * ms}, {41 * ms, 100 * ms}}, nil, nil, 0},
		{"nodes were not well at its end", 50 * ms, []Span{{0, 49 * ms}}, nil, nil, 0},
		{"the process was stopped", 50 * ms, []Span{{0, 100 * ms}}, []Span{{45 * ms, 46 * ms}}, nil, 0},
		{"the machine was busy", 50 * ms, []Span{{0, 100 * ms}}, nil, []Span{{39 * ms, 41 * ms}}, 0},
		{"the machine was busy before and after", 50 * ms, []Span{{0, 100 * ms}}, nil, []Span{{0, 40 * ms}, {50 * ms, 60 * ms}}, 1},
	} {
		l := &Log{
			Lease: 10 * time.Millisecond, Healthy: tt.healthy, Stopped: map[string][]Span{"p": tt.stopped}, Starved: tt.starved,
			Tenures: []Tenure{{Client: "p/1", Key: "k", Lost: tt.lost}},
		}
		if got := Losses(l); len(got) != tt.want {
			t.Errorf("%s: the violations are %v, want %d", tt.name, got, tt.want)
		}
	}
}

// Where a node of the holder's is lost, others who try again and again have the next one first.
func TestAHotKeyIsJudgedWhereAllNodesAreWell(t *testing.T) {
	for want, faults := range [][]Fault{{{Span{45 * ms, 46 * ms}, "killed", "node [1]"}}, {{Span{45 * ms, 46 * ms}, "stopped", "client [1]"}, {Span{10 * ms, 11 * ms}, "killed", "node [1]"}}} {
		l := &Log{Lease: 10 * time.Millisecond, Healthy: []Span{{0, 100 * ms}}, Faults: faults, Hot: "k", Tenures: []Tenure{{Client: "p/1", Key: "k", Lost: 50 * ms}}}
		if got := Losses(l); len(got) != want {
			t.Errorf("a hot key is lost behind %v: the violations are %v, want %d", faults, got, want)
		}
		l.Hot = "another"
		if got := Losses(l); len(got) != 1 {
			t.Errorf("a key is lost behind %v: the violations are %v, want 1", faults, got)
		}
	}
}

func TestAReleaseIsBounded(t *testing.T) {
	const bound = 10 * time.Millisecond
	for _, tt := range []struct {
		name    string
		release Span
		healthy []Span
		want    int
		longest Moment
	}{
		{"there was none", Span{}, []Span{{0, 100 * ms}}, 0, 0},
		{"in time", Span{10 * ms, 19 * ms}, []Span{{0, 100 * ms}}, 0, 9 * ms},
		{"late", Span{10 * ms, 20 * ms}, []Span{{0, 100 * ms}}, 1, 10 * ms},
		{"late, with the nodes down", Span{10 * ms, 90 * ms}, []Span{{0, 15 * ms}, {81 * ms, 100 * ms}}, 0, 9 * ms},
		{"it did not return", Span{10 * ms, Never}, []Span{{0, 100 * ms}}, 1, 90 * ms},
	} {
		l := &Log{Healthy: tt.healthy, Tenures: []Tenure{{Client: "p/1", Key: "k", Release: tt.release}}}
		if got, most := Releases(l, bound); len(got) != tt.want || Moment(most) != tt.longest {
			t.Errorf("%s: the violations are %v and the longest took %v, want %d and %v", tt.name, got, most, tt.want, time.Duration(tt.longest))
		}
	}
}
