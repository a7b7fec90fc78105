package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What Around shows at most, so that all of it is read.
const (
	eventsAround = 18
	faultsAround = 10
)

// Around tells what happened around a violation: to its key while those that contradict
// each other were at it, and the faults that were nearest, each on a line, in order of
// time. Times are milliseconds from the violation's start; the parties have a ">".
func (l *Log) Around(v Violation) string {
	shown := hull(append(slices.Clone(v.parties), Fault{Span: v.Span}))
	events, hidden := nearest(v, l.concerning(v, shown), eventsAround)
	var faults []event
	for _, f := range l.Faults {
		faults = append(faults, f)
	}
	faults, spared := nearest(v, faults, faultsAround)

	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%13s %13s\n", v, "from (ms)", "to (ms)")
	lines := slices.Concat(events, faults)
	slices.SortStableFunc(lines, func(a, b event) int { return cmp.Compare(a.span().From, b.span().From) })
	at := func(m Moment) string {
		if m == Never {
			return "never"
		}
		return fmt.Sprintf("%+.3f", float64(m-v.From)/float64(time.Millisecond))
	}
	for _, e := range lines {
		mark := " "
		if slices.Contains(v.parties, e) {
			mark = ">"
		}
		fmt.Fprintf(&text, "%s%12s %13s  %s\n", mark, at(e.span().From), at(e.span().To), e.tell(at))
	}
	if hidden+spared > 0 {
		fmt.Fprintf(&text, "  and %d more of this key in this time, and %d faults farther away\n", hidden, spared)
	}
	return text.String()
}

// concerning returns the events of the violation's key that meet the stretch. A call that
// was served shows as what was had.
func (l *Log) concerning(v Violation, stretch Span) []event {
	var found []event
	add := func(e event) {
		if s := e.span(); e.key() == v.Key && s.From <= stretch.To && s.To >= stretch.From {
			found = append(found, e)
		}
	}
	for _, t := range l.Tenures {
		add(t)
	}
	for _, visit := range l.Visits {
		add(visit)
	}
	for _, w := range slices.Concat(l.Waits, l.Rounds) {
		if w.Err != "" || w.Answered == Never || slices.Contains(v.parties, event(w)) {
			add(w)
		}
	}
	for _, r := range slices.Concat(l.Retries, l.Votes) {
		if slices.Contains(v.parties, event(r)) {
			add(r)
		}
	}
	return found
}

// nearest returns the violation's parties and, up to the limit, what was nearest to it:
// first what was going on at its start. It also tells how many it has left out.
func nearest(v Violation, events []event, limit int) (near []event, hidden int) {
	distance := func(e event) Moment {
		if slices.Contains(v.parties, e) {
			return -1
		}
		s := e.span()
		return max(s.From-v.From, v.From-s.To, 0)
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(distance(a), distance(b)) })
	shown := min(len(events), limit)
	return events[:shown], len(events) - shown
}
