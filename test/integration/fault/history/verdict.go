package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// shownViolations is how many of them a Verdict names, and more if so many rules were violated.
const shownViolations = 10

// releaseBound is how many leases a call to release may take, on a machine that is busy. A
// release returns within a node's time-out otherwise.
const releaseBound = 2

// retryBound is for how many leases a token may be released at a node again and again: one, and
// what a node that stalls and a machine that is busy take more. Otherwise, what is retried
// grows as long as stalls recur.
const retryBound = 3

// voteBound is how many leases a vote may be asked of a far node behind the near ones: it answers
// within a quarter of one, and the rest is for a machine that is busy. Otherwise, what waits for it
// grows as long as it is far.
const voteBound = 2

// A Verdict says what there was to judge, and what has come of it.
type Verdict struct {
	Tenures, Fenced, Keys, Clients int
	Shared                         int // of the tenures
	Visits, Unknown                int // of the visits nobody knows whether they were made
	Waits                          int
	Faults                         map[string]int // by kind
	Bound, LongestWait             time.Duration  // of healthy time without a break
	LongestRelease                 time.Duration  // the same
	LongestRetry                   time.Duration  // of a release, where a node stalled
	LatestVote                     time.Duration  // behind the near nodes, where one was far or slow
	Rounds, Ownerless              int            // keys that were asked for at one instant, and those of them that nobody had

	// How long it all took, and how much of it Liveness could judge, and the rest had to
	// excuse.
	Lasted, Healthy, Lenient time.Duration
	Starved                  time.Duration // how long any process did not get to run in time

	Violations []Violation
	Excused    []Violation // those that began while the assumptions of a lease did not hold
}

// Judge asks all the rules: one holder at a time, whose fences grow and whose visits are
// linearizable, and nobody waits for longer than the bound in healthy time, is long about a release
// or goes on with it, or loses a lock that is renewed. Errors that a caller makes for itself are
// allowed.
func Judge(l *Log, bound time.Duration, allowed ...string) Verdict {
	v := Verdict{
		Tenures: len(l.Tenures), Visits: len(l.Visits), Waits: len(l.Waits),
		Faults: map[string]int{}, Bound: bound,
		Healthy: length(l.Healthy), Lenient: length(l.Excused), Starved: length(l.Starved),
	}
	began, ended := Never, Moment(0)
	keys, clients := map[string]bool{}, map[string]bool{}
	for _, t := range l.Tenures {
		keys[t.Key], clients[t.Client] = true, true
		began, ended = min(began, t.Asked), max(ended, t.Ended)
		if t.Fence != 0 {
			v.Fenced++
		}
		if t.Shared {
			v.Shared++
		}
	}
	v.Keys, v.Clients = len(keys), len(clients)
	v.Lasted = time.Duration(max(ended-began, 0))
	for _, visit := range l.Visits {
		if visit.Returned == Never {
			v.Unknown++
		}
	}
	for _, f := range l.Faults {
		v.Faults[f.What]++
	}
	v.Violations = Notes(l)
	for _, rule := range []func(*Log) (violations, excused []Violation){
		Exclusion, Fences,
		func(l *Log) (violations, excused []Violation) { return SharedFences(l), nil },
		func(l *Log) (violations, excused []Violation) { return Register(l), nil },
	} {
		violations, excused := rule(l)
		v.Violations = append(v.Violations, violations...)
		v.Excused = append(v.Excused, excused...)
	}
	late := func(violations []Violation, most time.Duration) time.Duration {
		v.Violations = append(v.Violations, violations...)
		return most
	}
	v.LongestWait = late(Liveness(l, bound, allowed...))
	untold, rounds, ownerless := Rounds(l, allowed...)
	v.Violations, v.Rounds, v.Ownerless = append(v.Violations, untold...), rounds, ownerless
	if l.Lease > 0 {
		v.Violations = append(v.Violations, Losses(l)...)
		pace := min(l.Lease, time.Second) // what these take has nothing to do with longer leases
		v.LongestRelease = late(Releases(l, releaseBound*pace))
		v.LongestRetry = late(Retries(l, retryBound*l.Lease)) // a lost command may run for as long as its lease
		v.LatestVote = late(Votes(l, voteBound*pace))
	}
	return v
}

// Kept tells whether nothing was violated.
func (v Verdict) Kept() bool { return len(v.Violations) == 0 }

func (v Verdict) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "violations: %s\n", or(count(v.Violations), "none"))
	fmt.Fprintf(&text, "%d tenures of %d keys by %d clients, %d with a fence, %d shared\n", v.Tenures, v.Keys, v.Clients, v.Fenced, v.Shared)
	fmt.Fprintf(&text, "over %v, of which the nodes were well for %v, some process did not get to run in time for %v, and a clock's step is excused for %v\n",
		v.Lasted.Round(time.Second), v.Healthy.Round(time.Second), v.Starved.Round(100*time.Millisecond), v.Lenient.Round(time.Second))
	fmt.Fprintf(&text, "%d visits to what the locks protect, %d of them with an unknown end\n", v.Visits, v.Unknown)
	fmt.Fprintf(&text, "%d calls to acquire; the longest wait in healthy time is %v, and the bound %v; the longest release %v\n",
		v.Waits, v.LongestWait.Round(time.Millisecond), v.Bound, v.LongestRelease.Round(time.Millisecond))
	fmt.Fprintf(&text, "where a node stalled, a token was released for up to %v; where one was far, a vote was asked for up to %v behind the others\n",
		v.LongestRetry.Round(time.Millisecond), v.LatestVote.Round(time.Millisecond))
	fmt.Fprintf(&text, "%d new keys were asked for by several at one instant, and %d of them had no owner\n", v.Rounds, v.Ownerless)
	var faults []string
	for _, what := range slices.Sorted(maps.Keys(v.Faults)) {
		faults = append(faults, fmt.Sprintf("%d × %s", v.Faults[what], what))
	}
	fmt.Fprintf(&text, "faults: %s\n", or(strings.Join(faults, ", "), "none"))
	fmt.Fprintf(&text, "excused, while a lease's assumptions did not hold: %s\n", or(count(v.Excused), "nothing"))
	for _, violation := range v.Samples(shownViolations) {
		fmt.Fprintf(&text, "violation of %v\n", violation)
	}
	if more := len(v.Violations) - len(v.Samples(shownViolations)); more > 0 {
		fmt.Fprintf(&text, "and %d more\n", more)
	}
	return text.String()
}

// Samples returns so many violations, if there are as many, and at least one of each rule: first
// these.
func (v Verdict) Samples(n int) []Violation {
	var first, more []Violation
	for _, violation := range v.Violations {
		if slices.ContainsFunc(first, func(f Violation) bool { return f.Rule == violation.Rule }) {
			more = append(more, violation)
		} else {
			first = append(first, violation)
		}
	}
	return append(first, more[:min(len(more), max(0, n-len(first)))]...)
}

// count tells how many violations there are of each rule.
func count(violations []Violation) string {
	rules := map[string]int{}
	for _, v := range violations {
		rules[v.Rule]++
	}
	var counts []string
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		counts = append(counts, fmt.Sprintf("%d × %s", rules[rule], rule))
	}
	return strings.Join(counts, ", ")
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
