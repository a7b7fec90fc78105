package history

import (
	"strings"
	"testing"
)

func TestNotes(t *testing.T) {
	tests := []struct {
		name string
		log  Log
		want string
	}{
		{"all in order", Log{
			Tenures: []Tenure{had("a", 2, 3, 0), had("b", 9, 8, 0)}, // b learned too late that it had it
			Visits:  []Visit{visit("a", 1, 1, "", "1"), visit("a", 1, Never, "1", "2")},
			Waits:   []Wait{{Client: "a", Key: "k", Asked: 1, Answered: Never}},
			Faults:  []Fault{{Span: Span{1, Never}}},
			Healthy: []Span{{1, 2}}, Stopped: map[string][]Span{"p": {{1, Never}}},
		}, ""},
		{"a tenure of nobody", Log{Tenures: []Tenure{had("", 2, 3, 0)}}, "of nobody"},
		{"a tenure of nothing", Log{Tenures: []Tenure{on("", had("a", 2, 3, 0))}}, "of nothing"},
		{"had before", Log{Tenures: []Tenure{{Client: "a", Key: "k", Asked: 2, Had: 1, Ended: 3}}}, "before it asked"},
		{"ended before", Log{Tenures: []Tenure{{Client: "a", Key: "k", Asked: 2, Had: 3, Ended: 1}}}, "ended before"},
		{"a lease with no end", Log{Tenures: []Tenure{{Client: "a", Key: "k", Asked: 2, Had: 3, Ended: Never}}}, "no end"},
		{"a visit of nobody", Log{Visits: []Visit{visit("", 1, 2, "", "1")}}, "a visit of nobody"},
		{"a visit that returned before", Log{Visits: []Visit{visit("a", 2, 1, "", "1")}}, "before it was called"},
		{"a wait of nobody", Log{Waits: []Wait{{Key: "k"}}}, "a wait of nobody"},
		{"an answer before", Log{Waits: []Wait{{Client: "a", Key: "k", Asked: 2, Answered: 1}}}, "answered before"},
		{"a fault that ends before", Log{Faults: []Fault{{Span{2, 1}, "killed", "node 1"}}}, "node 1 was well again"},
		{"health that ends before", Log{Healthy: []Span{{2, 1}}}, "a span ends"},
		{"an excuse that ends before", Log{Excused: []Span{{2, 1}}}, "a span ends"},
		{"a stop that ends before", Log{Stopped: map[string][]Span{"p": {{2, 1}}}}, "a span ends"},
	}
	for _, tt := range tests {
		if len(tt.log.Tenures) == 0 {
			tt.log.Tenures = []Tenure{had("a", 2, 3, 0)}
		}
		violations := Notes(&tt.log)
		if found := len(violations) > 0; found != (tt.want != "") || found && !strings.Contains(violations[0].What, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, violations, tt.want)
		}
	}
	if len(Notes(&Log{})) == 0 {
		t.Error("a log in which no lock was had is taken for a proof")
	}
}
