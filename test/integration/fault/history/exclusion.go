package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Exclusion finds the tenures that held together and may not: a key has one holder, or several who
// share it. Where some may hold it together, any part of them may, too: so it is asked when one begins,
// and not when one ends. A window ends before the one that begins in the same moment. Who learned that
// it had the lock when that was over has an empty window, and held with nobody.
//
// What begins in an excused span is returned apart. No more is excused: a node that
// forgot a lease because its clock was set forward had granted it before, and Excused
// lasts until all such leases are over. So both of two tenures that overlap because of
// that have begun by then.
func Exclusion(l *Log) (violations, excused []Violation) {
	excuses := union(l.Excused)
	for key, tenures := range byKey(l.Tenures) {
		slices.SortStableFunc(tenures, func(a, b Tenure) int { return cmp.Compare(a.Had, b.Had) })
		var together []Tenure
		for _, next := range tenures {
			if next.Ended <= next.Had {
				continue
			}
			together = slices.DeleteFunc(together, func(t Tenure) bool { return t.Ended <= next.Had })
			together = append(together, next)
			if len(together) == 1 || !slices.ContainsFunc(together, func(t Tenure) bool { return !t.Shared }) {
				continue
			}
			v := overlap(key, next.Had, together)
			if within(excuses, next.Had) {
				excused = append(excused, v)
			} else {
				violations = append(violations, v)
			}
		}
	}
	return violations, excused
}

func overlap(key string, from Moment, together []Tenure) Violation {
	v := Violation{Rule: "exclusion", Key: key, Span: Span{from, Never}}
	var names []string
	for _, t := range together {
		v.To = min(v.To, t.Ended)
		v.parties = append(v.parties, t)
		names = append(names, t.Client+fenced(t.Fence))
	}
	v.What = fmt.Sprintf("held together for %v: %s", between(v.From, v.To), strings.Join(names, "; "))
	return v
}
