package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
)

// bound is how long, at most, a waiter may wait for its lock while a majority of the
// nodes is well: several leases of those before it, of which each may have crashed.
const bound = 10 * time.Second

// shown is how many violations a report shows the log around, and more if so many rules were
// violated.
const shown = 3

// remains is how much a report shows of what is left behind.
const remains = 10

// A Report is what came of a trial.
type Report struct {
	history.Verdict
	Log     *history.Log
	Began   history.Moment
	Took    time.Duration
	Remains []string // what is left that should not be

	Calmed   time.Duration // how long it took until nobody asked the nodes for much any more
	Heaviest worker.Weight // the most that a process at rest had
}

// Clean reports whether nothing is wrong.
func (r *Report) Clean() bool { return r.Kept() && len(r.Remains) == 0 }

// First is how long it took until the first thing went wrong.
func (r *Report) First() time.Duration {
	first := history.Never
	for _, v := range r.Violations {
		first = min(first, v.From)
	}
	return time.Duration(first - r.Began)
}

func (r *Report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v in %v, %.0f a second\n", r.Verdict, r.Took.Round(time.Second), float64(r.Tenures)/r.Took.Seconds())
	fmt.Fprintf(&text, "tries for a hot key: %d; clients at rest were calm after %v, with up to %d goroutines and %d kB in use each\n",
		r.Log.Tries, r.Calmed.Round(time.Millisecond), r.Heaviest.Goroutines, r.Heaviest.Heap>>10)
	if len(r.Remains) == 0 {
		fmt.Fprintln(&text, "left behind: nothing")
	}
	for _, what := range r.Remains[:min(len(r.Remains), remains)] {
		fmt.Fprintf(&text, "left behind: %s\n", what)
	}
	if more := len(r.Remains) - remains; more > 0 {
		fmt.Fprintf(&text, "left behind: and %d more\n", more)
	}
	if !r.Kept() {
		fmt.Fprintf(&text, "the first violation came %v after the start\n", r.First().Round(time.Millisecond))
	}
	for _, v := range r.Samples(shown) {
		fmt.Fprintf(&text, "\n%s", r.Log.Around(v))
	}
	return text.String()
}
