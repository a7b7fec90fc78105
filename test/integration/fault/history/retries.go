package history

import (
	"fmt"
	"slices"
	"time"
)

// Retries finds the tokens that were released at a node again and again for longer than the
// bound. It also returns the longest that there was.
func Retries(l *Log, bound time.Duration) (violations []Violation, most time.Duration) {
	return l.late(l.Retries, "retries", "released a token, where a node stalled, again and again", bound)
}

// Votes finds the votes that were asked of a far node by more than the bound after they were asked
// of the near ones: what waits there has grown, and is asked for locks that may be long over. It
// also returns the longest that there was.
func Votes(l *Log, bound time.Duration) (violations []Violation, most time.Duration) {
	return l.late(l.Votes, "votes", "asked a far node for a vote behind the near ones", bound)
}

// late finds the stretches that are longer than the bound. Only time counts in which all processes
// ran, and what forwards their commands: who does not run hears of no answer, and goes on where it was.
func (l *Log) late(all []Retry, rule, what string, bound time.Duration) (violations []Violation, most time.Duration) {
	late := map[string][]Span{}
	for _, r := range all {
		p := process(r.Client)
		if _, ok := late[p]; !ok {
			late[p] = union(slices.Concat(l.Deaf, l.Starved, l.Stopped[p]))
		}
		took := length(without([]Span{r.Span}, late[p]))
		most = max(most, took)
		if took > bound {
			violations = append(violations, Violation{
				Rule: rule, Span: r.Span, parties: []event{r},
				What: fmt.Sprintf("%s %s for %v at %s, and the bound is %v", r.Client, what, took.Round(time.Microsecond), r.Node, bound),
			})
		}
	}
	return violations, most
}
