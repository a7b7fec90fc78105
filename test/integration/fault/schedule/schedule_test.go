package schedule

import (
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
)

var stage = Stage{Nodes: 5, Replicas: 2, Clients: 3, Lease: time.Second}

// until returns the faults that begin before the end.
func until(end time.Duration, faults iter.Seq[Fault]) (first []Fault) {
	for f := range faults {
		if f.At >= end {
			break
		}
		first = append(first, f)
	}
	return first
}

func TestASeedAlwaysGivesTheSameFaults(t *testing.T) {
	const while = 10 * time.Minute
	first, again, other := until(while, Faults(7, stage)), until(while, Faults(7, stage)), until(while, Faults(8, stage))
	if len(first) < 100 || !reflect.DeepEqual(first, again) {
		t.Errorf("the seed 7 gave %d faults, and then others", len(first))
	}
	if reflect.DeepEqual(first, other) {
		t.Error("the seed 8 gives what 7 does")
	}
	if !slices.Equal(Durable(7, 5), Durable(7, 5)) {
		t.Error("the seed 7 gave other durable nodes the second time")
	}
}

func TestEveryKindComes(t *testing.T) {
	came := map[Kind]int{}
	for _, f := range until(time.Hour, Faults(1, stage)) {
		came[f.Kind]++
	}
	for _, k := range Kinds() {
		if came[k] < 10 {
			t.Errorf("%s came %d times in an hour", k, came[k])
		}
	}
}

func TestFaultsComeInOrderAndOneAtATimeToEachVictim(t *testing.T) {
	last := time.Duration(0)
	nodes, clients := map[int]time.Duration{}, map[int]time.Duration{}
	for _, f := range until(time.Hour, Faults(2, stage)) {
		if f.At < last {
			t.Fatalf("%v begins at %v, after one at %v", f, f.At, last)
		}
		last = f.At
		victims, of := f.Nodes, nodes
		if f.Nodes == nil {
			victims, of = f.Clients, clients
		}
		for _, i := range victims {
			if f.At < of[i] {
				t.Fatalf("%v begins at %v, where another lasts until %v", f, f.At, of[i])
			}
			of[i] = f.At + f.For
		}
		if f.Kind == HotKey && (f.Nodes != nil || len(f.Clients) != stage.Clients) {
			t.Fatalf("%v is not of all clients", f)
		}
		if slices.Contains(f.Nodes, f.Other) && f.Kind == Copy {
			t.Fatalf("%v copies from itself", f)
		}
	}
}

// Without long stretches in which a majority is well, waiting could not be judged; without
// others, nobody would see what comes of a majority that fails.
func TestMostOfTheTimeAMajorityIsWell(t *testing.T) {
	const hour = time.Hour
	unwell := make([][]history.Span, stage.Nodes)
	for _, f := range until(hour, Faults(3, stage)) {
		for _, i := range f.Unwell() {
			unwell[i] = append(unwell[i], history.Span{From: history.Moment(f.At), To: history.Moment(f.At + f.For + f.Kind.Recovery(stage.Lease))})
		}
	}
	var healthy, longest time.Duration
	for _, s := range history.Majority(history.Span{To: history.Moment(hour)}, unwell) {
		healthy += time.Duration(s.To - s.From)
		longest = max(longest, time.Duration(s.To-s.From))
	}
	if share := float64(healthy) / float64(hour); share < 0.6 || share > 0.95 {
		t.Errorf("a majority is well %.0f%% of the time, want 60 to 95%%", 100*share)
	}
	if longest < 15*stage.Lease {
		t.Errorf("the longest stretch with a majority is %v, want 15 leases", longest)
	}
}

func TestAStageHasOnlyItsKinds(t *testing.T) {
	s := stage
	s.Kinds = []Kind{KillAll, StopClient}
	for _, f := range until(time.Hour, Faults(4, s)) {
		if !slices.Contains(s.Kinds, f.Kind) {
			t.Fatalf("%v came, which is not to be", f)
		}
	}
	s.Kinds, s.Replicas = []Kind{Failover}, 0
	for f := range Faults(4, s) {
		t.Fatalf("%v came, where no node has a replica", f)
	}
}

// Each step of a clock is taken back, and those of a majority agree.
func TestAMajorityOfTheClocksAgrees(t *testing.T) {
	const together, soon = 100 * time.Millisecond, 2 * time.Minute
	two := 0
	for seed := range uint64(200) {
		c := newClocks()
		since := map[int]time.Duration{} // when each clock became wrong
		for _, f := range until(20*time.Minute, Faults(seed, stage)) {
			if f.At < c.setting && !habitOf(f.Kind).ofClients() {
				t.Fatalf("the seed %d: %v at %v, while all clocks are set", seed, f, f.At)
			}
			c.happen(f)
			sorted := slices.Sorted(slices.Values(c.ahead))
			quorum, agree := len(sorted)/2+1, false
			for i := range len(sorted) - quorum + 1 {
				agree = agree || sorted[i+quorum-1]-sorted[i] <= together
			}
			if !agree {
				t.Fatalf("the seed %d: after %v at %v the clocks are ahead by %v", seed, f, f.At, c.ahead)
			}
			for i, ahead := range c.ahead {
				began, was := since[i]
				switch {
				case ahead == 0:
					delete(since, i)
				case !was:
					since[i] = f.At
				case f.At-began > soon:
					t.Fatalf("the seed %d: at %v the clock %d is wrong since %v", seed, f.At, i, began)
				}
			}
			if len(since) == 2 {
				two++
			}
		}
	}
	if two == 0 {
		t.Error("never are two clocks of five wrong")
	}
}

// A node that forgets a fence makes others lean on the clocks: what their median shows from
// then on is more than all that it showed before.
func TestNoNodeForgetsWhatTheClocksFallBackBehind(t *testing.T) {
	kinds := map[Kind]int{}
	for seed := range uint64(200) {
		c := newClocks()
		shown := []reading{{}} // the greatest and the least, from each moment on
		var forgotten []time.Duration
		for _, f := range until(20*time.Minute, Faults(seed, stage)) {
			before := c.median()
			c.happen(f)
			if after := c.median(); after != before { // from its begin until its end either may show
				shown = append(shown,
					reading{f.At, max(before, after), min(before, after)}, reading{f.At + f.For, after, after})
				kinds[f.Kind]++
			}
			if f.Kind.forgets() {
				forgotten = append(forgotten, f.At, f.At+f.For)
			}
		}
		for _, at := range forgotten {
			greatest, least := time.Duration(0), time.Hour
			for i, r := range shown {
				until := time.Hour
				if i+1 < len(shown) {
					until = shown[i+1].from
				}
				if r.from <= at {
					greatest = max(greatest, min(until, at)+r.most)
				}
				if until >= at {
					least = min(least, max(r.from, at)+r.least)
				}
			}
			if least < greatest {
				t.Fatalf("the seed %d: a node forgets at %v, when the clocks had shown %v; and then they show %v", seed, at, greatest, least)
			}
		}
	}
	if kinds[StepForwardInVote] < 200 || kinds[StepBackInVote] < 200 {
		t.Errorf("the median was moved by %v, too seldom to say anything", kinds)
	}
}

// A reading is what the median of the clocks shows more than it should.
type reading struct{ from, most, least time.Duration }

// clocks are those of the nodes, by the schedule.
type clocks struct {
	ahead   []time.Duration
	setting time.Duration // until then all are being set
}

func newClocks() *clocks { return &clocks{ahead: make([]time.Duration, stage.Nodes)} }

func (c *clocks) happen(f Fault) {
	for _, i := range f.Nodes {
		c.ahead[i] += f.Step()
	}
	if f.Step() != 0 {
		c.setting = f.At + f.For
	}
}

func (c *clocks) median() time.Duration {
	return slices.Sorted(slices.Values(c.ahead))[len(c.ahead)/2]
}
