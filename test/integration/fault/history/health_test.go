package history

import (
	"slices"
	"testing"
)

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
