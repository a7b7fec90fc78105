package main

import (
	"fmt"
	"math"
	"slices"
)

// floors are what the library promises itself. Ratios are of cycles a second where they
// do not say otherwise, and medians of the ratios in each round.
func floors() []Floor {
	all := []Floor{
		peerFloor("go-redis", 128, 5), peerFloor("redigo", 128, 4.5), peerFloor("rueidis", 128, 4.5),
		bestFloor(128, 2.4), bestFloor(16, 2.1),
		peerFloor("go-redis", 1, 1.2), peerFloor("redigo", 1, 1.05), peerFloor("rueidis", 1, 1.2),
		bareFloor(16, 0.65), bareFloor(128, 0.75), bareFloor(1024, 0.85),
		allocsFloor("go-redis", 25), allocsFloor("rueidis", 12),
		distanceFloor(16, 1.35), distanceFloor(128, 1.7),
	}
	for _, fault := range minorities {
		all = append(all,
			worst("throughput against healthy, "+fault.Name, "faults", "share", fault.Name, 0.8, false, percent),
			worst("p99 against healthy, "+fault.Name, "faults", "p99 ratio", fault.Name, 2, true, twofold))
	}
	for _, fault := range minorities {
		all = append(all,
			worst("keys left after 50,000 cycles, "+fault.Name, "leftovers", "keys left", fault.Name, 0, true, whole),
			worst("goroutines left, "+fault.Name, "leftovers", "goroutines", fault.Name, 0, true, whole))
	}
	for _, fault := range []Fault{hung(1), hung(2)} {
		all = append(all,
			worst("keys left one TTL after waking, closed meanwhile, "+fault.Name, "closing", "keys left", fault.Name, 0, true, whole),
			worst("goroutines left, closed meanwhile, "+fault.Name, "closing", "goroutines", fault.Name, 0, true, whole))
	}
	all = append(all,
		worst("a try without a quorum, 3 nodes refused, fails within", "outage", "worst", refused(3).Name, 0.005, true, duration),
		worst("a try without a quorum, 3 nodes hung, fails within a node's time-out (and 5 ms)", "outage", "worst", hung(3).Name, 0.255, true, duration))
	return slices.Concat(all, waitingFloors(), renewedFloors(), safetyFloors(), farFloors())
}

// peerFloor compares with the better of redsync's modes over the same client.
func peerFloor(client string, goroutines int, want float64) Floor {
	return Floor{
		Text: fmt.Sprintf("cycles against redsync, both over %s, no auto-pipeline, %s", client, Key{Goroutines: goroutines}.title()),
		Want: want, Form: twofold,
		Measure: func(r *Report) (float64, string) {
			t := r.Table(throughput.Name)
			peer := best(t, goroutines, func(c Contender) bool {
				return c.Library == "redsync" && c.Client == client && (c.Mode == "" || c.Mode == failFast)
			})
			ours := t.Row(Key{Contender: "redlock " + client, Goroutines: goroutines})
			return ratio("cycles", ours, peer), against(peer)
		},
	}
}

// bestFloor compares our best client with redsync's best mode of any kind.
func bestFloor(goroutines int, want float64) Floor {
	return Floor{
		Text: fmt.Sprintf("cycles of our best against redsync's best mode of any kind, %s", Key{Goroutines: goroutines}.title()),
		Want: want, Form: twofold,
		Measure: func(r *Report) (float64, string) {
			t := r.Table(throughput.Name)
			ours := best(t, goroutines, Contender.ours)
			peer := best(t, goroutines, func(c Contender) bool { return !c.ours() })
			if ours == nil {
				return math.NaN(), ""
			}
			return ratio("cycles", ours, peer), ours.Contender + " " + against(peer)
		},
	}
}

// bareFloor compares the slowest of our clients with what the servers and the machine can do.
func bareFloor(goroutines int, want float64) Floor {
	return Floor{
		Text: fmt.Sprintf("cycles against bare commands and votes, our slowest client, %s", Key{Goroutines: goroutines}.title()),
		Want: want, Form: percent,
		Measure: func(r *Report) (float64, string) {
			value, at := math.NaN(), ""
			for _, row := range ours(r.Table(throughput.Name)) {
				if v := row.Median("share"); row.Goroutines == goroutines && !(v >= value) {
					value, at = v, row.Contender
				}
			}
			return value, at
		},
	}
}

func allocsFloor(client string, want float64) Floor {
	return Floor{
		Text: "allocations a cycle over " + client + ", 128 goroutines",
		Want: want, AtMost: true, Form: decimal,
		Measure: func(r *Report) (float64, string) {
			return r.Table(throughput.Name).Row(Key{Contender: "redlock " + client, Goroutines: 128}).Median("allocs"), ""
		},
	}
}

// distanceFloor takes the best of our clients; the table states the others.
func distanceFloor(goroutines int, want float64) Floor {
	return Floor{
		Text: fmt.Sprintf("lock p90 in round trips, nodes 5 ms away, our best client, %d goroutines", goroutines),
		Want: want, AtMost: true, Form: twofold,
		Measure: func(r *Report) (float64, string) {
			value, at := math.NaN(), ""
			for _, row := range ours(r.Table(distance.Name)) {
				if v := row.Median("trips"); row.Goroutines == goroutines && !(v >= value) {
					value, at = v, row.Contender
				}
			}
			return value, at
		},
	}
}

// worst takes the worst of our clients and numbers of goroutines in a situation.
func worst(text, table, metric, situation string, want float64, atMost bool, form func(float64) string) Floor {
	return Floor{
		Text: text, Want: want, AtMost: atMost, Form: form,
		Measure: func(r *Report) (float64, string) {
			value, at := math.NaN(), ""
			for _, row := range ours(r.Table(table)) {
				v := row.Median(metric)
				worse := v < value
				if atMost {
					worse = v > value
				}
				if (situation == "" || row.Situation == situation) && (worse || math.IsNaN(value)) {
					value, at = v, "at worst: "+row.Contender
					if situation == "" {
						at += ", " + row.Situation
					}
					if row.Goroutines > 0 {
						at += fmt.Sprintf(", %d goroutines", row.Goroutines)
					}
				}
			}
			return value, at
		},
	}
}

// ours are the rows of our own contenders.
func ours(t *Table) []*Row {
	if t == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(t.Rows), func(row *Row) bool {
		return !slices.ContainsFunc(everybody(), func(c Contender) bool { return c.ours() && c.Name() == row.Contender })
	})
}

// best is the row with most cycles among the contenders that may.
func best(t *Table, goroutines int, may func(Contender) bool) *Row {
	var found *Row
	for _, c := range contenders() {
		row := t.Row(Key{Contender: c.Name(), Goroutines: goroutines})
		if may(c) && row != nil && (found == nil || row.Median("cycles") > found.Median("cycles")) {
			found = row
		}
	}
	return found
}

func against(peer *Row) string {
	if peer == nil {
		return ""
	}
	return "against " + peer.Contender
}
