package history

import (
	"fmt"
	"iter"
	"maps"
	"slices"
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
