package history

import (
	"slices"
	"testing"
	"time"
)

func TestSpans(t *testing.T) {
	tests := []struct {
		name          string
		spans, others []Span
		union, rest   []Span // rest is without the others
	}{
		{name: "none"},
		{name: "apart", spans: []Span{{5, 6}, {1, 2}}, union: []Span{{1, 2}, {5, 6}}, rest: []Span{{1, 2}, {5, 6}}},
		{name: "touching", spans: []Span{{1, 2}, {2, 3}}, union: []Span{{1, 3}}, rest: []Span{{1, 3}}},
		{name: "overlapping", spans: []Span{{1, 4}, {2, 3}, {3, 6}}, union: []Span{{1, 6}}, rest: []Span{{1, 6}}},
		{name: "empty", spans: []Span{{1, 1}, {3, 2}}},
		{
			name: "a hole", spans: []Span{{1, 9}}, others: []Span{{3, 4}, {6, 7}},
			union: []Span{{1, 9}}, rest: []Span{{1, 3}, {4, 6}, {7, 9}},
		},
		{
			name: "over the edges", spans: []Span{{1, 4}, {6, 9}}, others: []Span{{0, 2}, {3, 7}, {8, Never}},
			union: []Span{{1, 4}, {6, 9}}, rest: []Span{{2, 3}, {7, 8}},
		},
		{name: "all of it", spans: []Span{{1, 4}}, others: []Span{{1, 4}}, union: []Span{{1, 4}}},
	}
	for _, tt := range tests {
		one := union(tt.spans)
		if !slices.Equal(one, tt.union) {
			t.Errorf("%s: the union is %v, want %v", tt.name, one, tt.union)
		}
		if rest := without(one, union(tt.others)); !slices.Equal(rest, tt.rest) {
			t.Errorf("%s: without the others it is %v, want %v", tt.name, rest, tt.rest)
		}
	}
	if got := length([]Span{{1, 4}, {2, 5}, {7, 8}}); got != 5*time.Nanosecond {
		t.Errorf("the length is %v, want each moment once, 5ns", got)
	}
}
