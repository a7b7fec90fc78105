package history

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLiveness(t *testing.T) {
	const bound = 10 * time.Millisecond
	wait := func(asked, answered Moment, err string) Wait {
		if answered != Never {
			answered *= ms
		}
		return Wait{Client: "p1/2", Key: "k", Asked: asked * ms, Answered: answered, Err: err}
	}
	always := []Span{{0, 100 * ms}}
	tests := []struct {
		name    string
		wait    Wait
		healthy []Span
		stopped []Span
		want    string // in the violation; "" for none
		longest time.Duration
	}{
		{name: "served at once", wait: wait(5, 6, ""), healthy: always, longest: 1},
		{name: "served in time", wait: wait(5, 14, ""), healthy: always, longest: 9},
		{name: "served late", wait: wait(5, 15, ""), healthy: always, want: "was served after 10ms", longest: 10},
		{name: "late, with the nodes down", wait: wait(5, 50, ""), healthy: []Span{{0, 10 * ms}, {41 * ms, 100 * ms}}, longest: 9},
		{name: "late, and the nodes were well for long enough", wait: wait(5, 50, ""), healthy: []Span{{0, 10 * ms}, {40 * ms, 100 * ms}}, want: "was served after 10ms", longest: 10},
		{name: "spans that touch are one", wait: wait(5, 15, ""), healthy: []Span{{10 * ms, 100 * ms}, {0, 10 * ms}}, want: "was served", longest: 10},
		{name: "late, and it was stopped", wait: wait(5, 50, ""), healthy: always, stopped: []Span{{10 * ms, 45 * ms}}, longest: 5},
		{name: "late after it was stopped", wait: wait(5, 50, ""), healthy: always, stopped: []Span{{10 * ms, 40 * ms}}, want: "was served", longest: 10},
		{name: "never answered", wait: wait(5, Never, ""), healthy: always, want: "was not served after 95ms", longest: 95},
		{name: "never answered, and the time is up", wait: wait(90, Never, ""), healthy: always, want: "was not served after 10ms", longest: 10},
		{name: "never answered, as it was killed", wait: wait(5, Never, ""), healthy: always, stopped: []Span{{10 * ms, Never}}, longest: 5},
		{name: "never healthy", wait: wait(5, 50, "")},
		{name: "failed", wait: wait(5, 6, "no quorum"), healthy: always, want: "failed with no quorum, with nothing in its way", longest: 1},
		{name: "failed at once", wait: wait(5, 5, "no quorum"), healthy: always, want: "failed with no quorum, with nothing in its way"},
		{name: "failed at once, with the nodes down", wait: wait(5, 5, "no quorum")},
		{name: "failed as the nodes went down", wait: wait(5, 8, "no quorum"), healthy: []Span{{0, 7 * ms}}, longest: 2},
		{name: "failed as it was stopped", wait: wait(5, 8, "expired"), healthy: always, stopped: []Span{{6 * ms, 7 * ms}}, longest: 1},
		{name: "failed as it may", wait: wait(5, 8, "own deadline"), healthy: always, longest: 3},
		{name: "failed as it may, but late", wait: wait(5, 18, "own deadline"), healthy: always, want: "failed with own deadline after 13ms", longest: 13},
	}
	for _, tt := range tests {
		log := &Log{Waits: []Wait{tt.wait}, Healthy: tt.healthy, Stopped: map[string][]Span{"p1": tt.stopped, "p2": {{0, 100 * ms}}}}
		violations, most := Liveness(log, bound, "own deadline")
		if most != tt.longest*time.Millisecond {
			t.Errorf("%s: the longest wait is %v, want %v", tt.name, most, tt.longest*time.Millisecond)
		}
		if found := len(violations) > 0; found != (tt.want != "") || found && !strings.Contains(violations[0].What, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, violations, tt.want)
		}
	}
}

func TestRetriesCountWhileTheirProcessRuns(t *testing.T) {
	const bound = 30 * time.Millisecond
	for _, tt := range []struct {
		name    string
		stopped map[string][]Span
		deaf    []Span
		want    int
		longest Moment
	}{
		{"nothing was in the way", nil, nil, 1, 40 * ms},
		{"the process was stopped", map[string][]Span{"p": {{20 * ms, 30 * ms}}}, nil, 0, 30 * ms},
		{"it was stopped for less", map[string][]Span{"p": {{20 * ms, 29 * ms}}}, nil, 1, 31 * ms},
		{"it was stopped at other times", map[string][]Span{"p": {{0, 10 * ms}, {50 * ms, 90 * ms}}}, nil, 1, 40 * ms},
		{"another was stopped", map[string][]Span{"q": {{20 * ms, 30 * ms}}}, nil, 1, 40 * ms},
		{"nothing was forwarded", nil, []Span{{45 * ms, 60 * ms}}, 1, 35 * ms},
		{"both, at the same time", map[string][]Span{"p": {{20 * ms, 26 * ms}}}, []Span{{20 * ms, 26 * ms}}, 1, 34 * ms},
		{"one after the other", map[string][]Span{"p": {{20 * ms, 26 * ms}}}, []Span{{26 * ms, 30 * ms}}, 0, 30 * ms},
	} {
		l := &Log{Retries: []Retry{{Span{10 * ms, 50 * ms}, "p", "node 1"}}, Stopped: tt.stopped, Deaf: tt.deaf}
		if got, most := Retries(l, bound); len(got) != tt.want || Moment(most) != tt.longest {
			t.Errorf("%s: the violations are %v and the longest took %v, want %d and %v", tt.name, got, most, tt.want, time.Duration(tt.longest))
		}
	}
	l := &Log{Retries: []Retry{{Span{10 * ms, 50 * ms}, "p", "node 1"}}, Starved: []Span{{20 * ms, 30 * ms}}}
	if got, _ := Retries(l, bound); len(got) > 0 {
		t.Errorf("no process got to run for a while: the violations are %v, want none", got)
	}
	l = &Log{Votes: []Retry{{Span{10 * ms, 40 * ms}, "p", "node 1"}, {Span{10 * ms, 41 * ms}, "p", "node 2"}}}
	if got, most := Votes(l, bound); len(got) != 1 || Moment(most) != 31*ms {
		t.Errorf("votes that came late: the violations are %v and the latest came after %v, want one and 31ms", got, most)
	}
}

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

func TestNobodyIsToldThatAKeyIsTakenThatNobodyHas(t *testing.T) {
	for _, tt := range []struct {
		name     string
		told     []string // "" has it
		violated bool
	}{
		{"one has it", []string{"", "held", "held"}, false},
		{"nobody has it, and all know", []string{"contended", "contended"}, false},
		{"all are told that somebody has it", []string{"held", "held"}, true},
		{"one is, by a quorum that does not know it", []string{"contended", "held"}, false},
		{"one is, by less than a quorum, and at once", []string{"contended", "hidden"}, true},
		{"one is, by less than a quorum, after a node time-out", []string{"contended", "hidden late"}, false},
		{"all are, after a node time-out", []string{"hidden late", "held"}, true},
		{"one that had no quorum may have had the key", []string{"no-quorum", "held"}, false},
		{"one was killed, and may have had it", []string{"killed", "held"}, false},
		{"one was stopped meanwhile, and may have had it", []string{"hidden stopped", "held"}, false},
	} {
		l := &Log{Stopped: map[string][]Span{}, Healthy: []Span{{0, 100 * ms}}}
		for i, err := range tt.told {
			w := Wait{Client: fmt.Sprint("p", i, "/1"), Key: "k", Asked: 10 * ms, Answered: 20 * ms, Err: err}
			if err == "" {
				l.Tenures = append(l.Tenures, Tenure{Client: w.Client, Key: "k", Asked: w.Asked, Had: w.Answered, Ended: 30 * ms})
			}
			switch err {
			case "killed":
				w.Answered, w.Err = Never, ""
			case "hidden stopped":
				w.Err, l.Stopped["p0"] = "hidden", []Span{{15 * ms, 16 * ms}}
			case "hidden late":
				w.Answered, w.Err = w.Asked+nodeTimeout, "hidden"
			}
			l.Rounds = append(l.Rounds, w)
		}
		if got, _, _ := Rounds(l); (len(got) > 0) != tt.violated {
			t.Errorf("%s: the violations are %v, want some: %v", tt.name, got, tt.violated)
		}
	}
}

func TestAlmostAllKeysOfAnInstantHaveAnOwner(t *testing.T) {
	for _, tt := range []struct {
		name          string
		keys, without int
		starved       []Span
		stopped       map[string][]Span
		err           string
		violated      bool
	}{
		{"one in a hundred has none", 200, 2, nil, nil, "contended", false},
		{"more have none", 200, 3, nil, nil, "contended", true},
		{"one of a few has none", 10, 1, nil, nil, "contended", false},
		{"the machine was busy", 200, 3, []Span{{5 * ms, 6 * ms}}, nil, "contended", false},
		{"the process was stopped", 200, 3, nil, map[string][]Span{"p": {{5 * ms, 6 * ms}}}, "contended", false},
		{"those who asked gave up by themselves", 200, 3, nil, nil, "caller", false},
	} {
		l := &Log{Healthy: []Span{{0, 100 * ms}}, Starved: tt.starved, Stopped: tt.stopped}
		for i := range tt.keys {
			w := Wait{Client: "p/1", Key: fmt.Sprint("k", i), Asked: 0, Answered: 10 * ms}
			if i < tt.without {
				w.Err = tt.err
			} else {
				l.Tenures = append(l.Tenures, Tenure{Client: "p/1", Key: w.Key, Had: 10 * ms, Ended: 11 * ms})
			}
			l.Rounds = append(l.Rounds, w)
		}
		if got, _, _ := Rounds(l, "caller"); (len(got) > 0) != tt.violated {
			t.Errorf("%s: the violations are %v, want some: %v", tt.name, got, tt.violated)
		}
	}
}
