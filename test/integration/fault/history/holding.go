package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Losses finds the locks that ended though they were to be renewed, and though nothing was in
// their holder's way for the last lease: a majority of the nodes was well, the process was not
// stopped, and the machine was not too busy. Of the hot key and of a crowd's it wants all nodes
// well: where one of its holder's is lost, others get the key at the next one before he does.
func Losses(l *Log) (violations []Violation) {
	free, busy := l.free(), union(l.Starved)
	for _, t := range l.Tenures {
		last := Span{t.Lost - Moment(l.Lease), t.Lost}
		if t.Lost == 0 || longest(free(t.Client), last) != last || longest(busy, last).To > last.From {
			continue
		}
		crowded := t.Key == l.Hot || l.Crowd != "" && strings.HasPrefix(t.Key, l.Crowd)
		if crowded && slices.ContainsFunc(l.Faults, func(f Fault) bool {
			return strings.HasPrefix(f.Whom, "node") && f.From < last.To && f.To > last.From-Moment(l.Lease)
		}) {
			continue
		}
		violations = append(violations, Violation{
			Rule: "renewal", Key: t.Key, Span: last, parties: []event{t},
			What: fmt.Sprintf("%s lost the lock that was to be renewed, with nothing in its way for %v: %s", t.Client, l.Lease, t.Why),
		})
	}
	return violations
}

// Releases finds the calls to release that took the bound or longer while nothing was in their
// way. It also returns the longest that there was.
func Releases(l *Log, bound time.Duration) (violations []Violation, most time.Duration) {
	free := l.free()
	for _, t := range l.Tenures {
		stretch := longest(free(t.Client), t.Release)
		took := time.Duration(stretch.To - stretch.From)
		most = max(most, took)
		if took >= bound {
			violations = append(violations, Violation{
				Rule: "release", Key: t.Key, Span: stretch, parties: []event{t},
				What: fmt.Sprintf("%s's call to release took %v, and the bound is %v", t.Client, between(stretch.From, stretch.To), bound),
			})
		}
	}
	return violations, most
}

// free returns what says when nothing was in a client's way: a majority of the nodes was well
// and its process was not stopped.
func (l *Log) free() func(client string) []Span {
	healthy := union(l.Healthy)
	free := map[string][]Span{}
	return func(client string) []Span {
		p := process(client)
		if _, ok := free[p]; !ok {
			free[p] = without(healthy, union(l.Stopped[p]))
		}
		return free[p]
	}
}
