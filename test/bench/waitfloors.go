package main

import (
	"fmt"
	"math"
)

// waitingFloors are what it promises to those who wait. Against redsync they are how
// many times better we are.
func waitingFloors() []Floor {
	all := []Floor{
		handoverFloor("p50", "", 100), handoverFloor("p99", "", 100), handoverFloor("p50", polling, 4),
	}
	for _, client := range polled {
		all = append(all,
			crowdFloor(contended, "changes", "changes of owner", client, false, 4),
			crowdFloor(contended, "wait p99", "p99 of waiting, times shorter", client, true, 8))
	}
	all = append(all, fairFloor(contended, 0.99))
	for _, client := range polled {
		all = append(all, crowdFloor(processes, "changes", "changes of owner", client, false, 3.5))
	}
	return append(all,
		fairFloor(processes, 0.96),
		worst("p99 of waiting, "+processTitle, processes.Name, "wait p99", processTitle, 0.35, true, duration),
		worst("longest wait, "+processTitle, processes.Name, "wait max", processTitle, 1, true, duration),
		worst("permits in use", permits.Name, "in use", "", 0.8, false, percent),
		worst("permits in use, "+processTitle, permits.Name, "in use", processTitle, 0.8, false, percent),
		worst("most holders of 10 permits", permits.Name, "most", "", permitCount, true, whole),
		worst("most holders of 10 permits, "+processTitle, permits.Name, "most", processTitle, permitCount, true, whole),
		worst("a lock's context ends within 10 ms of its deadline, "+hung(3).Name, cut.Name, "worst", hung(3).Name, 0.01, true, duration))
}

// handoverFloor compares each of our clients with redsync over the same one, and
// takes the best.
func handoverFloor(metric, mode string, want float64) Floor {
	name := mode
	if mode == "" {
		name = "its default delay"
	}
	return Floor{
		Text: fmt.Sprintf("hand-over %s, times shorter than redsync's with %s, same client, our best", metric, name),
		Want: want, Form: decimal,
		Measure: func(r *Report) (float64, string) {
			value, at := math.NaN(), ""
			t := r.Table(handover.Name)
			for _, client := range polled {
				peer := t.Row(Key{Contender: find("redsync", client, mode).Name(), Situation: oneWaiter})
				ours := t.Row(Key{Contender: find("redlock", client, "").Name(), Situation: oneWaiter})
				times := ratio(metric, peer, ours)
				if !math.IsNaN(times) && !(times <= value) {
					value, at = times, against(peer)
				}
			}
			return value, at
		},
	}
}

// crowdFloor compares with redsync over the same client, with the delay that is better
// in what is compared.
func crowdFloor(c Case, metric, what, client string, less bool, want float64) Floor {
	key := Key{Goroutines: crowded}
	if c.Name == processes.Name {
		key.Situation = processTitle
	}
	row := func(r *Report, library, mode string) *Row {
		return r.Table(c.Name).Row(Key{find(library, client, mode).Name(), key.Goroutines, key.Situation})
	}
	return Floor{
		Text: fmt.Sprintf("%s against redsync, both over %s, one key, %s", what, client, key.title()),
		Want: want, Form: twofold,
		Measure: func(r *Report) (float64, string) {
			ours := row(r, "redlock", "")
			value, at := math.NaN(), ""
			for _, mode := range []string{"", polling} {
				peer := row(r, "redsync", mode)
				times := ratio(metric, ours, peer)
				if less {
					times = ratio(metric, peer, ours)
				}
				if !math.IsNaN(times) && !(times >= value) {
					value, at = times, against(peer)
				}
			}
			return value, at
		},
	}
}

func fairFloor(c Case, want float64) Floor {
	situation := ""
	if c.Name == processes.Name {
		situation = processTitle
	}
	return worst(fmt.Sprintf("Jain's index of fairness, one key, %s", c.Name), c.Name, "jain", situation, want, false, index)
}
