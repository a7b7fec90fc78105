package history

import (
	"fmt"
	"slices"
	"time"
)

// Retries finds the tokens that were released at a node again and again for longer than the
// bound. Only time counts in which all processes ran, and what forwards their commands: who does
// not run hears of no answer, and goes on where it was. It also returns the longest that there was.
func Retries(l *Log, bound time.Duration) (violations []Violation, most time.Duration) {
	late := map[string][]Span{}
	for _, r := range l.Retries {
		p := process(r.Client)
		if _, ok := late[p]; !ok {
			late[p] = union(slices.Concat(l.Deaf, l.Starved, l.Stopped[p]))
		}
		took := length(without([]Span{r.Span}, late[p]))
		most = max(most, took)
		if took > bound {
			violations = append(violations, Violation{
				Rule: "retries", Span: r.Span, parties: []event{r},
				What: fmt.Sprintf("%s released a token at %s, which stalled, again and again for %v, and the bound is %v", r.Client, r.Node, took.Round(time.Microsecond), bound),
			})
		}
	}
	return violations, most
}
