package history

import (
	"fmt"
	"testing"
)

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
