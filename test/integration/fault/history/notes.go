package history

import (
	"fmt"
	"slices"
)

// Notes finds what no holder can have noted: what ends before it begins, a lease that has
// no end, what belongs to nobody. The other rules would be blind to some of it. And a log
// in which no lock was had proves nothing.
func Notes(l *Log) []Violation {
	var found []Violation
	check := func(sound bool, e event, what string) {
		if !sound {
			found = append(found, Violation{Rule: "notes", Key: e.key(), Span: hull([]event{e}), What: what, parties: []event{e}})
		}
	}
	for _, t := range l.Tenures {
		check(t.Client != "" && t.Key != "", t, "a tenure of nobody, or of nothing")
		check(t.Asked <= t.Had, t, t.Client+" had a lock before it asked for it")
		check(t.Asked <= t.Ended, t, t.Client+"'s lock had ended before it asked for it")
		check(t.Release.From <= t.Release.To, t, t.Client+"'s release returned before it was called")
		check(t.Had != Never && t.Ended != Never, t, t.Client+"'s lock has no end, or was not had")
	}
	for _, v := range l.Visits {
		check(v.Client != "" && v.Key != "", v, "a visit of nobody, or of nothing")
		check(v.Called <= v.Returned, v, v.Client+"'s visit returned before it was called")
	}
	for _, w := range l.Waits {
		check(w.Client != "" && w.Key != "", w, "a wait of nobody, or for nothing")
		check(w.Asked <= w.Answered, w, w.Client+" was answered before it asked")
	}
	for _, f := range l.Faults {
		check(f.From <= f.To, f, f.Whom+" was well again before its fault: "+f.What)
	}
	spans := slices.Concat(l.Healthy, l.Excused)
	for _, stopped := range l.Stopped {
		spans = append(spans, stopped...)
	}
	for _, s := range spans {
		check(s.From <= s.To, Fault{Span: s}, fmt.Sprintf("a span ends before it begins: %v", s))
	}
	if len(l.Tenures) == 0 {
		found = append(found, Violation{Rule: "notes", What: "no lock was had: there is nothing to judge"})
	}
	return found
}
