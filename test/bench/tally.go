package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// crowdColumns are those of every case with a crowd.
var crowdColumns = []Column{
	{"acquisitions", "acquisitions/s", whole},
	{"changes", "changes of owner/s", whole},
	{"wait p50", "wait p50", duration},
	{"wait p99", "p99", duration},
	{"wait max", "max", duration},
	{"jain", "Jain's index", index},
	{"commands", "a node's commands", decimal},
	{"overlaps", "two holders", whole},
	{"failed", "failed", whole},
}

// Window is a part of the time in which a crowd was at work.
type Window struct{ from, to moment }

func (w Window) has(m moment) bool { return m >= w.from && m < w.to }

// tally says how the members fared in the window: the turns that began in it. A holder
// that gets the lock again right away has served nobody, so what counts is how often
// the lock changed hands. The longest wait may be one that had not ended when the
// window did.
func tally(members []Member, w Window) map[string]float64 {
	type owned struct {
		Turn
		owner int
	}
	var all []owned
	var longest time.Duration
	values := map[string]float64{"overlaps": 0, "failed": 0}
	for i, m := range members {
		values["failed"] += float64(m.Failed)
		for _, turn := range m.Turns {
			if turn.Got != 0 {
				all = append(all, owned{turn, i})
			}
			if (turn.Got == 0 || turn.Got >= w.to) && turn.Asked < w.to {
				longest = max(longest, w.to.sub(turn.Asked))
			}
		}
	}
	slices.SortFunc(all, func(a, b owned) int { return cmp.Compare(a.Got, b.Got) })

	var waits latencies
	var changes int
	shares := make([]float64, len(members))
	for i, turn := range all {
		if !w.has(turn.Got) {
			continue
		}
		wait := turn.Got.sub(turn.Asked)
		waits.add(wait)
		longest = max(longest, wait)
		shares[turn.owner]++
		if i > 0 && all[i-1].owner != turn.owner {
			changes++
		}
		if i > 0 && all[i-1].Left > turn.Got {
			values["overlaps"]++
		}
	}
	seconds := w.to.sub(w.from).Seconds()
	values["acquisitions"] = float64(waits.count) / seconds
	values["changes"] = float64(changes) / seconds
	values["wait max"] = longest.Seconds()
	values["jain"] = jain(shares)
	if waits.count > 0 {
		values["wait p50"] = waits.quantile(0.5).Seconds()
		values["wait p99"] = waits.quantile(0.99).Seconds()
	}
	return values
}

// jain is Jain's index of fairness: 1 where all have the same share, and 1/n where one
// of n has everything. It is not a number where nobody has any.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(shares)) * squares)
}
