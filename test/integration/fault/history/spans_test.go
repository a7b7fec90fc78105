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

func TestAMajorityIsWellWhileFewerAreIll(t *testing.T) {
	whole := Span{0, 100}
	for what, tt := range map[string]struct {
		unwell [][]Span
		want   []Span
	}{
		"nobody is ill":                    {make([][]Span, 5), []Span{whole}},
		"a minority is ill":                {[][]Span{{{10, 50}}, {{20, 60}}, nil, nil, nil}, []Span{whole}},
		"three of five are ill":            {[][]Span{{{10, 50}}, {{20, 60}}, {{30, 40}}, nil, nil}, []Span{{0, 30}, {40, 100}}},
		"one is ill twice over":            {[][]Span{{{10, 50}, {20, 60}}, {{10, 60}}, nil, nil, nil}, []Span{whole}},
		"one falls ill as another is well": {[][]Span{{{10, 50}}, {{10, 50}}, {{10, 50}}, {{50, 60}}, nil}, []Span{{0, 10}, {50, 100}}},
		"three from the start to the end":  {[][]Span{{{-5, 200}}, {{-5, 200}}, {{-5, 200}}}, nil},
		"two of four are ill":              {[][]Span{{{10, 50}}, {{20, 60}}, nil, nil}, []Span{{0, 20}, {50, 100}}},
	} {
		if got := Majority(whole, tt.unwell); !slices.Equal(got, tt.want) {
			t.Errorf("%s: a majority is well at %v, want %v", what, got, tt.want)
		}
	}
}
