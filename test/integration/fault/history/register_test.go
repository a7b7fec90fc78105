package history

import (
	"fmt"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// visit is one in milliseconds. It returns Never if returned is.
func visit(client string, called, returned Moment, found, left string) Visit {
	if returned != Never {
		returned *= ms
	}
	return Visit{Client: client, Key: "k", Called: called * ms, Returned: returned, Found: found, Left: left}
}

func TestRegister(t *testing.T) {
	tests := []struct {
		name   string
		visits []Visit
		want   []string // in the violations, one each
	}{
		{name: "nobody"},
		{name: "one after the other", visits: []Visit{visit("a", 1, 2, "", "1"), visit("b", 3, 4, "1", "2"), visit("a", 5, 6, "2", "3")}},
		{name: "in any order", visits: []Visit{visit("b", 3, 4, "1", "2"), visit("a", 1, 2, "", "1")}},
		{name: "at once, in the other order", visits: []Visit{visit("a", 1, 5, "1", "2"), visit("b", 2, 6, "", "1")}},
		{name: "in the same moment", visits: []Visit{visit("a", 5, 6, "1", "2"), visit("b", 6, 7, "", "1")}},
		{
			name:   "a lost update",
			visits: []Visit{visit("a", 1, 2, "", "1"), visit("b", 3, 6, "1", "2"), visit("c", 4, 5, "1", "3")},
			want:   []string{`a lost update: b and c both found "1"`},
		},
		{
			name:   "a lost update, and one in the same moment that is fine",
			visits: []Visit{visit("a", 5, 6, "1", "2"), visit("b", 6, 7, "", "1"), visit("c", 8, 9, "1", "3")},
			want:   []string{`a lost update: a and c both found "1"`},
		},
		{
			name:   "two that believe that they are the first",
			visits: []Visit{visit("a", 1, 2, "", "1"), visit("b", 3, 6, "", "2")},
			want:   []string{`a lost update: a and b both found ""`},
		},
		{
			name:   "what nobody left",
			visits: []Visit{visit("a", 1, 2, "", "1"), visit("b", 3, 6, "9", "2")},
			want:   []string{`b found "9", which nobody left`},
		},
		{
			name:   "what is left later",
			visits: []Visit{visit("a", 1, 2, "1", "2"), visit("b", 3, 4, "", "1")},
			want:   []string{`a found "1", and had returned before b was called to leave it`},
		},
		{
			name:   "far ones in the wrong order, each near pair at once",
			visits: []Visit{visit("a", 8, 9, "", "1"), visit("b", 0, 10, "1", "2"), visit("c", 1, 2, "2", "3")},
			want:   []string{`c, by what was found, comes behind a, and had returned before that was called`},
		},
		{
			name:   "a ring",
			visits: []Visit{visit("a", 1, 5, "2", "1"), visit("b", 1, 5, "1", "2")},
			want:   []string{`a found "2", which goes back to no first visit`},
		},
		{
			name:   "one that finds what it leaves",
			visits: []Visit{visit("a", 1, 5, "", "1"), visit("b", 1, 5, "2", "2")},
			want:   []string{`b found "2", which goes back to no first visit`},
		},
		{
			name:   "two that leave the same",
			visits: []Visit{visit("a", 1, 2, "", "1"), visit("b", 3, 4, "1", "1")},
			want:   []string{`a and b both left "1"`},
		},
		{
			name:   "one that leaves nothing",
			visits: []Visit{visit("a", 1, 2, "", "1"), visit("b", 3, 4, "1", "")},
			want:   []string{`b left the content that is there at first`},
		},

		// The client crashed, or its connection, between the request and the answer.
		{name: "an unknown visit that was made", visits: []Visit{visit("a", 1, Never, "", "1"), visit("b", 3, 4, "1", "2")}},
		{name: "an unknown visit that was not made", visits: []Visit{visit("a", 1, Never, "", "1"), visit("b", 3, 4, "", "2")}},
		{name: "an unknown visit at the end", visits: []Visit{visit("a", 1, 2, "", "1"), visit("b", 3, Never, "1", "2")}},
		{name: "an unknown visit that is made much later", visits: []Visit{
			visit("a", 1, Never, "1", "2"), visit("b", 3, 4, "", "1"), visit("c", 5, 6, "2", "3"),
		}},
		{name: "two unknown visits, of which one was made", visits: []Visit{
			visit("a", 1, Never, "", "1"), visit("b", 1, Never, "", "2"), visit("c", 5, 6, "2", "3"),
		}},
		{name: "unknown visits in a row", visits: []Visit{
			visit("a", 1, Never, "", "1"), visit("b", 1, Never, "1", "2"), visit("c", 5, 6, "2", "3"),
		}},
		{name: "unknown visits in a row, none of them made", visits: []Visit{
			visit("a", 1, Never, "", "1"), visit("b", 1, Never, "1", "2"), visit("c", 5, 6, "", "3"),
		}},
		{name: "an unknown ring that was not made", visits: []Visit{visit("a", 1, Never, "2", "1"), visit("b", 1, Never, "1", "2")}},
		{
			name:   "an unknown visit that was made, and another in its place",
			visits: []Visit{visit("a", 1, Never, "", "1"), visit("b", 3, 4, "1", "2"), visit("c", 3, 4, "", "3")},
			want:   []string{`both found ""`},
		},
		{
			name:   "an unknown visit that was found before it was called",
			visits: []Visit{visit("b", 1, 2, "1", "2"), visit("a", 3, Never, "", "1")},
			want:   []string{`b found "1", and had returned before a was called to leave it`},
		},
	}
	for _, tt := range tests {
		violations := Register(&Log{Visits: tt.visits})
		if len(violations) != len(tt.want) {
			t.Errorf("%s: %d violations, want %d: %v", tt.name, len(violations), len(tt.want), violations)
			continue
		}
		for i, want := range tt.want {
			if !strings.Contains(violations[i].What, want) {
				t.Errorf("%s: the violation is %q, want %q in it", tt.name, violations[i].What, want)
			}
		}
	}
}

// The late write of a holder that was stopped is refused by its fence and is not in the
// log. Where it is not refused it is.
func TestALateWriteThatIsNotRefusedIsFound(t *testing.T) {
	visits := []Visit{visit("a", 1, 2, "", "1"), visit("b", 10, 11, "1", "2")}
	if violations := Register(&Log{Visits: visits}); len(violations) != 0 {
		t.Errorf("the late write was refused: %v, want none", violations)
	}
	visits = append(visits, visit("stopped", 3, 12, "1", "late"))
	if violations := Register(&Log{Visits: visits}); len(violations) != 1 {
		t.Errorf("the late write was taken: %d violations, want 1: %v", len(violations), violations)
	}
}

// Only an order that was found is a pass.
func TestASearchWithoutAnEndIsAViolation(t *testing.T) {
	fine := []Visit{visit("a", 1, 2, "", "1")}
	for _, tt := range []struct {
		result porcupine.CheckResult
		want   string
	}{
		{porcupine.Unknown, "unknown: no order of 1 visits was found"},
		{porcupine.Illegal, "no order explains 1 visits"}, // also where we have no words for it
	} {
		violations := explain(tt.result, "k", fine)
		if len(violations) != 1 || !strings.Contains(violations[0].What, tt.want) {
			t.Errorf("%s: %v, want one with %q", tt.result, violations, tt.want)
		}
	}
	if violations := explain(porcupine.Ok, "k", fine); len(violations) != 0 {
		t.Errorf("%s: %v, want none", porcupine.Ok, violations)
	}
}

func content(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprint(i)
}
