package history

import (
	"strings"
	"testing"
	"time"
)

const ms = Moment(time.Millisecond)

// had is a tenure in milliseconds, asked for 1ms before it was had.
func had(client string, had, ended Moment, fence int64) Tenure {
	return Tenure{Client: client, Key: "k", Asked: had*ms - ms, Had: had * ms, Ended: ended * ms, Fence: fence}
}

func on(key string, t Tenure) Tenure {
	t.Key = key
	return t
}

func shares(t Tenure) Tenure {
	t.Shared = true
	return t
}

func TestExclusion(t *testing.T) {
	tests := []struct {
		name       string
		tenures    []Tenure
		excused    []Span
		violations int
		excuses    int
	}{
		{name: "nobody"},
		{name: "one after the other", tenures: []Tenure{had("a", 1, 5, 0), had("b", 7, 9, 0)}},
		{name: "windows that touch", tenures: []Tenure{had("a", 1, 5, 0), had("b", 5, 9, 0)}},
		{name: "windows that touch, in any order", tenures: []Tenure{had("b", 5, 9, 0), had("a", 1, 5, 0)}},
		{name: "two keys", tenures: []Tenure{had("a", 1, 5, 0), on("l", had("b", 2, 6, 0))}},
		{name: "one had too late to hold", tenures: []Tenure{had("a", 1, 9, 0), had("b", 5, 4, 0), had("c", 6, 6, 0)}},
		{name: "an overlap", tenures: []Tenure{had("a", 1, 5, 0), had("b", 4, 9, 0)}, violations: 1},
		{name: "an overlap with oneself", tenures: []Tenure{had("a", 1, 5, 0), had("a", 4, 9, 0)}, violations: 1},
		{name: "the same moment", tenures: []Tenure{had("a", 1, 5, 0), had("b", 1, 5, 0)}, violations: 1},
		{name: "one in the other", tenures: []Tenure{had("a", 1, 9, 0), had("b", 3, 4, 0), had("c", 5, 6, 0)}, violations: 2},
		{name: "three at once", tenures: []Tenure{had("a", 1, 9, 0), had("b", 3, 8, 0), had("c", 5, 6, 0)}, violations: 2},
		{name: "who shares a key, and then one alone", tenures: []Tenure{shares(had("a", 1, 5, 0)), shares(had("b", 2, 6, 0)), had("c", 6, 7, 0)}},
		{name: "one alone beside one who shares", tenures: []Tenure{shares(had("a", 1, 5, 0)), shares(had("b", 2, 6, 0)), had("c", 5, 7, 0)}, violations: 1},
		{name: "one who shares beside one alone", tenures: []Tenure{had("a", 1, 5, 0), shares(had("b", 2, 6, 0))}, violations: 1},
		{name: "an overlap that is excused", tenures: []Tenure{had("a", 1, 5, 0), had("b", 4, 9, 0)}, excused: []Span{{3 * ms, 5 * ms}}, excuses: 1},
		{name: "an overlap as the excuse begins", tenures: []Tenure{had("a", 1, 5, 0), had("b", 4, 9, 0)}, excused: []Span{{4 * ms, 5 * ms}}, excuses: 1},
		{name: "an overlap as the excuse ends", tenures: []Tenure{had("a", 1, 5, 0), had("b", 4, 9, 0)}, excused: []Span{{2 * ms, 4 * ms}}, violations: 1},
		{name: "an overlap before the excuse", tenures: []Tenure{had("a", 1, 7, 0), had("b", 4, 9, 0)}, excused: []Span{{5 * ms, 9 * ms}}, violations: 1},
	}
	for _, tt := range tests {
		violations, excused := Exclusion(&Log{Tenures: tt.tenures, Excused: tt.excused})
		if len(violations) != tt.violations || len(excused) != tt.excuses {
			t.Errorf("%s: %d violations and %d excused, want %d and %d: %v %v",
				tt.name, len(violations), len(excused), tt.violations, tt.excuses, violations, excused)
		}
	}
}

func TestAnOverlapIsNamedWithItsShortestStretch(t *testing.T) {
	violations, _ := Exclusion(&Log{Tenures: []Tenure{had("a", 1, 5, 7), had("b", 4, 9, 8), had("c", 9, 12, 9)}})
	if len(violations) != 1 {
		t.Fatalf("%d violations, want 1", len(violations))
	}
	v := violations[0]
	if want := (Span{4 * ms, 5 * ms}); v.Span != want || v.Key != "k" {
		t.Errorf("the overlap is on %q at %v, want k at %v", v.Key, v.Span, want)
	}
	for _, want := range []string{"a, fence 7", "b, fence 8", "1ms"} {
		if !strings.Contains(v.String(), want) {
			t.Errorf("the violation is %q, want %q in it", v, want)
		}
	}
}
