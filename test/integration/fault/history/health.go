package history

import (
	"cmp"
	"slices"
)

// Majority returns when a majority of the nodes was well, by when each of them was not.
func Majority(whole Span, unwell [][]Span) (stretches []Span) {
	type turn struct {
		at  Moment
		ill int // nodes more, or less
	}
	var turns []turn
	for _, spans := range unwell {
		for _, s := range union(spans) {
			turns = append(turns, turn{s.From, 1}, turn{s.To, -1})
		}
	}
	// Where one turns ill as another is well again, there are both.
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.ill, a.ill)) })
	var lost []Span
	ill, minority := 0, (len(unwell)-1)/2
	for _, t := range turns {
		ill += t.ill
		switch {
		case t.ill > 0 && ill == minority+1:
			lost = append(lost, Span{t.at, Never})
		case t.ill < 0 && ill == minority:
			lost[len(lost)-1].To = t.at
		}
	}
	return without([]Span{whole}, lost)
}
