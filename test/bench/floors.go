package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Floor is what a figure must reach.
type Floor struct {
	Text    string
	Want    float64
	AtMost  bool // a ceiling rather
	Metric  string
	Measure func(r *Report) (value float64, at string)
}

// Ruling is a floor, and what was measured.
type Ruling struct {
	Text     string `json:"text"`
	Floor    string `json:"floor"`
	Measured string `json:"measured"`
	At       string `json:"at,omitempty"` // where, if several were looked at and this is the worst
	Verdict  string `json:"verdict"`
}

// unmeasured is the verdict where there are no figures.
const unmeasured = "not measured"

// judge holds the figures against the floors.
func judge(r *Report) []Ruling {
	var rulings []Ruling
	for _, f := range floors() {
		value, at := f.Measure(r)
		ruling := Ruling{Text: f.Text, Floor: "≥ " + show(f.Metric, f.Want), Measured: show(f.Metric, value), At: at, Verdict: "met"}
		short := 1 - value/f.Want
		if f.AtMost {
			ruling.Floor = "≤ " + show(f.Metric, f.Want)
			short = value/f.Want - 1
			if f.Want == 0 {
				short = value
			}
		}
		switch {
		case math.IsNaN(value):
			ruling.Verdict = unmeasured
		case f.Want == 0 && value == 0:
			ruling.At = "" // all of them
		case short > 0 && f.Want == 0:
			ruling.Verdict = "MISSED"
		case short > 0:
			ruling.Verdict = fmt.Sprintf("MISSED by %.1f %%", 100*short)
		}
		rulings = append(rulings, ruling)
	}
	return rulings
}

// floors are what the library promises itself. Ratios are of cycles a second where they
// do not say otherwise, and medians of the ratios in each round.
func floors() []Floor {
	var all []Floor
	beats := func(text string, want float64, v versus) {
		all = append(all, Floor{Text: text, Want: want, Metric: "times", Measure: v.measure})
	}
	least := func(text string, c Case, metric string, where Key, want float64) {
		all = append(all, worst(Floor{Text: text, Want: want, Metric: metric}, c, where))
	}
	most := func(text string, c Case, metric string, where Key, want float64) {
		all = append(all, worst(Floor{Text: text, Want: want, Metric: metric, AtMost: true}, c, where))
	}
	in := func(situation string) Key { return Key{Situation: situation} }
	for i, client := range clients {
		for j, goroutines := range []int{128, 1} {
			where := Key{Goroutines: goroutines}
			beats("cycles against redsync, both over "+client+", no auto-pipeline, "+where.title(), [][]float64{{5, 4.5, 4.5}, {1.2, 1.05, 1.2}}[j][i],
				versus{throughput, "cycles", false, where, []string{client}, modes("", failFast)})
		}
	}
	for i, goroutines := range []int{128, 16} {
		where := Key{Goroutines: goroutines}
		beats("cycles of our best against redsync's best mode of any kind, "+where.title(), []float64{2.4, 2.1}[i],
			versus{throughput, "cycles", false, where, clients, func(string, Contender) bool { return true }})
	}
	for i, goroutines := range []int{16, 128, 1024} {
		where := Key{Goroutines: goroutines}
		least("cycles against bare commands and votes, "+where.title(), throughput, "share", where, []float64{0.65, 0.75, 0.85}[i])
	}
	for i, client := range []string{"go-redis", "rueidis"} {
		where := Key{Contender: "redlock " + client, Goroutines: 128}
		most("allocations a cycle over "+client+", 128 goroutines", throughput, "allocs", where, []float64{25, 12}[i])
	}
	for i, goroutines := range []int{16, 128} {
		where := Key{Goroutines: goroutines, Situation: allFarther.Name}
		most("lock p90 in round trips, "+where.title(), faults, "trips", where, []float64{1.35, 1.7}[i])
	}
	for _, trouble := range minorities {
		where := in(trouble.Name)
		least("throughput against healthy, "+trouble.Name, faults, "share", where, 0.8)
		most("p99 against healthy, "+trouble.Name, faults, "p99 ratio", where, 2)
		most("keys left, "+trouble.Name, faults, "keys left", where, 0)
		most("goroutines left, "+trouble.Name, faults, "goroutines", where, 0)
	}
	most("goroutines left, closed without a quorum", outage, "goroutines", Key{}, 0)
	most("a try without a quorum, 3 nodes refused, fails within", outage, "worst", in(refused(3).Name), 0.005)
	most("a try without a quorum, 3 nodes hung, fails within a node's time-out (and 5 ms)", outage, "worst", in(hung(3).Name), 0.255)
	least("throughput against all nodes near, a minority farther away", far, "share", in(anyFarther), 0.95)
	most("MiB that a turn adds to the heap, a minority farther away", far, "MiB more", in(anyFarther), 8)
	most("Close beside a minority farther away, within a node's time-out (and 5 ms)", far, "close", in(anyFarther), 0.255)

	sooner := func(metric, mode, says string, want float64) {
		beats(fmt.Sprintf("hand-over %s, times shorter than redsync's with %s, same client, our best", metric, says), want,
			versus{handover, metric, true, in(oneWaiter), polled, modes(mode)})
	}
	sooner("p50", "", "its default delay", 100)
	sooner("p99", "", "its default delay", 100)
	sooner("p50", polling, polling, 4)
	for _, client := range polled {
		crowd := func(metric, says, situation string, less bool, want float64) {
			where := Key{"", crowded, situation}
			beats(fmt.Sprintf("%s against redsync, both over %s, one key, %s", says, client, where.title()), want,
				versus{contended, metric, less, where, []string{client}, modes("", polling)})
		}
		crowd("changes", "changes of owner", "", false, 4)
		crowd("wait p99", "p99 of waiting, times shorter", "", true, 8)
		crowd("changes", "changes of owner", processTitle, false, 3.5)
	}
	least("Jain's index of fairness, one key", contended, "jain", in(inOneProcess), 0.99)
	least("Jain's index of fairness, one key, "+processTitle, contended, "jain", in(processTitle), 0.96)
	most("p99 of waiting, "+processTitle, contended, "wait p99", in(processTitle), 0.35)
	most("longest wait, "+processTitle, contended, "wait max", in(processTitle), 1)
	most("most holders of one key", contended, "most", Key{}, 1)
	least("permits in use", permits, "in use", Key{Contender: "redlock go-redis semaphore"}, 0.8)
	most("most holders of 10 permits", permits, "most", Key{}, permitCount)

	for _, situation := range []string{renewedWell, renewedOne, renewedAll} {
		most("locks of 100,000 that were lost, "+situation, renewed, "lost", in(situation), 0)
	}
	most("renewals of 100,000 locks that failed, "+renewedWell, renewed, "failed", in(renewedWell), 0)
	most("processor time for 100,000 renewed locks, of one core", renewed, "clients busy", in(renewedWell), 0.6)
	most("renewals back to normal, "+renewedOne, renewed, "normal", in(renewedOne), 10)
	most("renewals back to normal, "+renewedAll, renewed, "normal", in(renewedAll), 10)

	for i, where := range []Key{{"", 128, "fences"}, {"", 128, "fences, keys that come again"}, {"", 1, "fences"}, {"", 128, "guard"}} {
		least("cycles of the plain ones, with "+where.title(), safety, "share", where, []float64{0.5, 0.6, 0.85, 0.95}[i])
	}
	most("second rounds of 1,000 fenced cycles", safety, "second rounds", in("fences"), 1)
	return all
}

// worst takes the worst of our rows that have what where has.
func worst(f Floor, c Case, where Key) Floor {
	f.Measure = func(r *Report) (float64, string) {
		value, at := math.NaN(), ""
		for _, row := range ourRows(r.Table(c.Name)) {
			if where.Contender != "" && where.Contender != row.Contender || where.Goroutines != 0 && where.Goroutines != row.Goroutines || !covers(where.Situation, row.Situation) {
				continue
			}
			if v := row.Median(f.Metric); math.IsNaN(value) || f.AtMost && v > value || !f.AtMost && v < value {
				value, at = v, "at worst: "+join(row.Contender, row.title())
			}
		}
		return value, at
	}
	return f
}

// Floors are for one situation, for all, or for these.
const (
	inOneProcess = "none" // is said
	anyFarther   = "farther"
)

func covers(want, situation string) bool {
	switch want {
	case "", situation:
		return true
	case inOneProcess:
		return situation == ""
	}
	return want == anyFarther && strings.Contains(situation, anyFarther)
}

// A versus is a comparison with redsync. Where less is better, its figure is divided by ours.
type versus struct {
	Case
	metric string
	less   bool
	where  Key
	ours   []string // clients, of which the best counts
	peers  func(client string, peer Contender) bool
}

// modes are those peers over the same client.
func modes(some ...string) func(string, Contender) bool {
	return func(client string, peer Contender) bool {
		return peer.Client == client && slices.Contains(some, peer.Mode)
	}
}

// measure compares our best client with the best of its peers.
func (v versus) measure(r *Report) (float64, string) {
	value, at, t := math.NaN(), "", r.Table(v.Name)
	row := func(c Contender) *Row { return t.Row(Key{c.Name(), v.where.Goroutines, v.where.Situation}) }
	for _, client := range v.ours {
		ours, least, beside := find("redlock", client, ""), math.NaN(), ""
		for _, peer := range redsyncs() {
			times := ratio(v.metric, row(ours), row(peer))
			if v.less {
				times = ratio(v.metric, row(peer), row(ours))
			}
			if v.peers(client, peer) && !math.IsNaN(times) && !(times >= least) {
				least, beside = times, ours.Name()+" against "+peer.Name()
			}
		}
		if !math.IsNaN(least) && !(least <= value) {
			value, at = least, beside
		}
	}
	return value, at
}

// ourRows are the rows of our own contenders.
func ourRows(t *Table) []*Row {
	if t == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(t.Rows), func(row *Row) bool { return !strings.HasPrefix(row.Contender, "redlock ") })
}
