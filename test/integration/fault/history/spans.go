package history

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// union returns the spans in order, with those that touch made one. They are then apart
// from each other, as all below want them.
func union(spans []Span) []Span {
	var apart []Span
	for _, s := range slices.SortedFunc(slices.Values(spans), func(a, b Span) int { return cmp.Compare(a.From, b.From) }) {
		switch last := len(apart) - 1; {
		case s.From >= s.To: // none of the time
		case last >= 0 && s.From <= apart[last].To:
			apart[last].To = max(apart[last].To, s.To)
		default:
			apart = append(apart, s)
		}
	}
	return apart
}

// without returns what is in the spans and not in the others.
func without(spans, others []Span) []Span {
	var rest []Span
	for _, s := range spans {
		for _, o := range others[first(others, s.From):] {
			if o.From >= s.To {
				break
			}
			if s.From < o.From {
				rest = append(rest, Span{s.From, o.From})
			}
			s.From = max(s.From, o.To)
		}
		if s.From < s.To {
			rest = append(rest, s)
		}
	}
	return rest
}

// first returns the index of the first span that ends after m.
func first(spans []Span, m Moment) int {
	return sort.Search(len(spans), func(i int) bool { return spans[i].To > m })
}

// within tells whether m lies in one of the spans.
func within(spans []Span, m Moment) bool {
	i := first(spans, m)
	return i < len(spans) && spans[i].From <= m
}

// longest returns the longest part of s that lies in one of the spans.
func longest(spans []Span, s Span) Span {
	part := Span{s.From, s.From}
	for _, o := range spans[first(spans, s.From):] {
		if o.From >= s.To {
			break
		}
		if o = (Span{max(o.From, s.From), min(o.To, s.To)}); o.To-o.From > part.To-part.From {
			part = o
		}
	}
	return part
}

// length returns how long the spans are, those that overlap counted once.
func length(spans []Span) time.Duration {
	var all Moment
	for _, s := range union(spans) {
		all += s.To - s.From
	}
	return time.Duration(all)
}

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
