package history

import (
	"fmt"
	"slices"
	"time"
)

// Liveness finds the calls that were kept waiting for the bound or longer while nothing
// was in their way, whatever came of them, and those that failed though nothing was in
// their way at all, with an error that is not among the allowed ones (a caller's own
// short patience, say). It also returns the longest wait that there was.
//
// Nothing is in the way of a call while a majority of the nodes is well and its own
// process is not stopped, without a break: after each, nodes and waiters begin anew. So
// of each call the longest such stretch counts.
func Liveness(l *Log, bound time.Duration, allowed ...string) (violations []Violation, most time.Duration) {
	free := l.free()
	for _, w := range l.Waits {
		all := Span{w.Asked, w.Answered}
		stretch := longest(free(w.Client), all)
		waited := time.Duration(stretch.To - stretch.From)
		most = max(most, waited)
		var what string
		switch {
		case waited >= bound && w.Answered == Never:
			what = "was not served"
		case waited >= bound && w.Err != "":
			what = "failed with " + w.Err
		case waited >= bound:
			what = "was served"
		case w.Err != "" && stretch == all && within(free(w.Client), w.Asked) && !slices.Contains(allowed, w.Err):
			what = "failed with " + w.Err + ", with nothing in its way,"
		default:
			continue
		}
		violations = append(violations, Violation{
			Rule: "liveness", Key: w.Key, Span: stretch, parties: []event{w},
			What: fmt.Sprintf("%s %s after %v, and the bound is %v", w.Client, what, between(stretch.From, stretch.To), bound),
		})
	}
	return violations, most
}
