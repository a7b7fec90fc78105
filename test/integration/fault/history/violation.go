package history

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Violation is what a log shows and locks rule out.
type Violation struct {
	Rule string
	Key  string
	Span // the shortest stretch that shows it
	What string

	parties []event // those that contradict each other, or the rule
}

func (v Violation) String() string {
	if v.Key == "" {
		return fmt.Sprintf("%s: %s", v.Rule, v.What)
	}
	return fmt.Sprintf("%s: key %q: %s", v.Rule, v.Key, v.What)
}

// An event is one line of a log: a Tenure, a Visit, a Wait, a Retry or a Fault.
type event interface {
	key() string // "" for a Retry or a Fault
	span() Span
	tell(at func(Moment) string) string // says what it was, with moments as at writes them
}

func (t Tenure) key() string { return t.Key }
func (v Visit) key() string  { return v.Key }
func (w Wait) key() string   { return w.Key }
func (r Retry) key() string  { return "" }
func (f Fault) key() string  { return "" }

func (t Tenure) span() Span { return Span{t.Asked, max(t.Had, t.Ended)} }
func (v Visit) span() Span  { return Span{v.Called, v.Returned} }
func (w Wait) span() Span   { return Span{w.Asked, w.Answered} }
func (r Retry) span() Span  { return r.Span }
func (f Fault) span() Span  { return f.Span }

func (t Tenure) tell(at func(Moment) string) string {
	return fmt.Sprintf("%s holds from %s to %s%s", t.Client, at(t.Had), at(t.Ended), fenced(t.Fence))
}

func (v Visit) tell(func(Moment) string) string {
	unknown := ""
	if v.Returned == Never {
		unknown = ", perhaps"
	}
	return fmt.Sprintf("%s finds %q, leaves %q%s%s", v.Client, v.Found, v.Left, unknown, fenced(v.Fence))
}

func (w Wait) tell(func(Moment) string) string {
	switch {
	case w.Answered == Never:
		return w.Client + " waits"
	case w.Err != "":
		return w.Client + " waits in vain: " + w.Err
	}
	return w.Client + " waits, and is served"
}

func (r Retry) tell(func(Moment) string) string {
	return r.Client + " asks for one token, from the first time to the last, at " + r.Node
}

func (f Fault) tell(func(Moment) string) string { return f.Whom + ": " + f.What }

func fenced(fence int64) string {
	if fence == 0 {
		return ""
	}
	return fmt.Sprintf(", fence %d", fence)
}

// byKey gives the events of one key after the other, in a slice of their own.
func byKey[T event](all []T) iter.Seq2[string, []T] {
	keys := map[string][]T{}
	for _, e := range all {
		keys[e.key()] = append(keys[e.key()], e)
	}
	return func(yield func(string, []T) bool) {
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if !yield(key, keys[key]) {
				return
			}
		}
	}
}

// between writes how long it is from one moment to another.
func between(from, to Moment) time.Duration { return time.Duration(to - from).Round(time.Microsecond) }

// hull returns the stretch that has all of the events in it, as far as they have ended.
func hull(events []event) Span {
	if len(events) == 0 {
		return Span{}
	}
	all := Span{Never, 0}
	for _, e := range events {
		s := e.span()
		all.From = min(all.From, s.From)
		if all.To = max(all.To, s.From); s.To != Never {
			all.To = max(all.To, s.To)
		}
	}
	return all
}

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
