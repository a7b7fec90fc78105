// Package schedule makes up faults, by a seed: the same seed, the same faults.
package schedule

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A Fault is something that happens to nodes or clients.
type Fault struct {
	Kind    Kind
	At, For time.Duration // when it begins, from the start of all, and how long it lasts
	Nodes   []int
	Clients []int         // whose process, or whose link to the nodes; nil: all
	Amount  time.Duration // how much is a delay or a step, or the pause between two stalls
	Other   int           // another node, to copy from
	Bytes   int           // that are let through of a reply; or a number to choose by
}

func (f Fault) String() string {
	text := []string{string(f.Kind)}
	if f.Amount != 0 {
		text = append(text, "by", f.Amount.Round(time.Millisecond).String())
	}
	if f.Nodes != nil {
		text = append(text, "node", fmt.Sprint(f.Nodes))
	}
	if f.Clients != nil {
		text = append(text, "client", fmt.Sprint(f.Clients))
	}
	if f.For != 0 {
		text = append(text, "for", f.For.Round(time.Millisecond).String())
	}
	return strings.Join(text, " ")
}

// Unwell returns the nodes that may not vote while the fault lasts and they recover. A node
// that another one copies takes a new history when that attaches, though it forgets nothing.
func (f Fault) Unwell() []int {
	if f.Kind == Copy {
		return append(slices.Clone(f.Nodes), f.Other)
	}
	return f.Nodes
}

// Step is by how much the fault sets a clock: forward, or back if it is below 0.
func (f Fault) Step() time.Duration {
	switch f.Kind {
	case StepForward, StepForwardInVote:
		return f.Amount
	case StepBack, StepBackInVote:
		return -f.Amount
	}
	return 0
}

// undone returns the step that takes this one back.
func (f Fault) undone(at time.Duration) Fault {
	f.At = at
	f.Kind = map[Kind]Kind{
		StepForward: StepBack, StepBack: StepForward,
		StepForwardInVote: StepBackInVote, StepBackInVote: StepForwardInVote,
	}[f.Kind]
	return f
}

// A Stage is what faults happen on.
type Stage struct {
	Nodes    int
	Replicas int // the first so many nodes have one
	Clients  int
	Lease    time.Duration // the longest
	Kinds    []Kind        // that can be made here; nil: all
}

// A weather says how bad things may be at a time.
type weather struct {
	least, most float64 // how many leases it lasts
	harmed      func(nodes int) int
	pause       float64 // the mean time between faults of nodes, in leases
	whole       bool    // whether the whole cluster may be harmed at once
}

// Most of the time a majority of the nodes is well. Then comes a storm, in which
// everything may happen to everybody.
var (
	calm  = weather{least: 12, most: 24, harmed: func(nodes int) int { return (nodes - 1) / 2 }, pause: 0.3}
	storm = weather{least: 2, most: 6, harmed: func(nodes int) int { return nodes }, pause: 0.1, whole: true}
)

// Faults makes up the faults on a stage, in the order in which they begin, without end.
// No two harm the same node or the same client at once, and while it is calm those that
// harm a node, or from which it recovers, leave a majority alone.
//
// Clocks are set, forward and back, and each step is taken back by another one: those of
// single nodes after a while, in which other faults happen to them, too, and those of all
// nodes before another fault happens to any. So two assumptions are kept that locks and fences
// lean on:
//
//   - A majority of the clocks agrees at any moment, but for the time in which one fault
//     sets all of them. A client may go for a while by what it has read before, so a clock
//     that is set right counts as wrong until no client does.
//   - No node forgets a fence that the median of the clocks can fall back behind: a
//     reading of the median after a node has forgotten is greater than all before.
func Faults(seed uint64, s Stage) iter.Seq[Fault] {
	return func(yield func(Fault) bool) {
		ofNodes, stopNodes := iter.Pull(s.nodes(rand.New(rand.NewPCG(seed, 1))))       //nolint:gosec // a seed to repeat it by
		ofClients, stopClients := iter.Pull(s.clients(rand.New(rand.NewPCG(seed, 2)))) //nolint:gosec // the same
		defer stopNodes()
		defer stopClients()
		next, more := ofNodes()
		after, others := ofClients()
		for more || others {
			if !others || more && next.At <= after.At {
				if !yield(next) {
					return
				}
				next, more = ofNodes()
			} else {
				if !yield(after) {
					return
				}
				after, others = ofClients()
			}
		}
	}
}

// Durable says which nodes keep what they know on their disks.
func Durable(seed uint64, nodes int) []bool {
	random := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a seed to repeat it by
	durable := make([]bool, nodes)
	for i := range durable {
		durable[i] = random.IntN(2) == 0
	}
	return durable
}

// nodes makes up the faults of nodes.
func (s Stage) nodes(random *rand.Rand) iter.Seq[Fault] {
	return func(yield func(Fault) bool) {
		if len(s.choice(func(h habit) bool { return !h.ofClients() })) == 0 {
			return
		}
		c := condition{Stage: s, random: random, states: make([]state, s.Nodes)}
		now := time.Duration(0)
		for sky, next := calm, storm; ; sky, next = next, sky {
			choice := s.choice(func(h habit) bool { return !h.ofClients() && (sky.whole || h.victim != cluster) })
			if len(choice) == 0 {
				continue
			}
			most := sky.harmed(s.Nodes)
			until := now + s.between(random, sky.least, sky.most)
			for ; now < until; now += time.Duration(random.ExpFloat64() * sky.pause * float64(s.Lease)) {
				f, due := c.due(now, most)
				if !due {
					f = s.make(random, choice, now)
				}
				faults, after := []Fault{f}, now
				if len(f.Nodes) == s.Nodes {
					faults, after = c.whole(f)
				}
				if !c.fits(faults[0], most) {
					continue
				}
				if len(faults) > 1 {
					until += after - now // others are to come in this weather, too
				}
				for _, f := range faults {
					c.happens(f)
					if !yield(f) {
						return
					}
				}
				now = after
			}
			if sky.whole { // all recover
				for _, n := range c.states {
					now = max(now, n.well)
				}
			}
		}
	}
}

// clients makes up the faults of clients' processes.
func (s Stage) clients(random *rand.Rand) iter.Seq[Fault] {
	return func(yield func(Fault) bool) {
		choice := s.choice(habit.ofClients)
		if len(choice) == 0 || s.Clients == 0 {
			return
		}
		pause := 2.0 // the mean time between two, in leases
		if len(s.choice(func(h habit) bool { return !h.ofClients() })) == 0 {
			pause = 0.5 // nothing else happens
		}
		free := make([]time.Duration, s.Clients)
		for now := s.Lease; ; now += time.Duration(random.ExpFloat64() * pause * float64(s.Lease)) {
			f := s.make(random, choice, now)
			if len(f.Clients) == s.Clients { // it waits until all are there
				f.At = max(f.At, slices.Max(free))
				now = f.At
			}
			if free[f.Clients[0]] > now {
				continue
			}
			for _, i := range f.Clients {
				free[i] = now + f.For + s.Lease // to do something meanwhile
			}
			if !yield(f) {
				return
			}
		}
	}
}

// choice returns the habits of the stage's kinds that suit.
func (s Stage) choice(suits func(habit) bool) (choice []habit) {
	for _, h := range habits {
		if (s.Kinds == nil || slices.Contains(s.Kinds, h.kind)) && suits(h) && (h.victim != replicated || s.Replicas > 0) {
			choice = append(choice, h)
		}
	}
	return choice
}

func (s Stage) make(random *rand.Rand, choice []habit, now time.Duration) Fault {
	h := pick(random, choice)
	f := Fault{Kind: h.kind, At: now, For: s.between(random, h.least, h.most)}
	switch h.victim {
	case client:
		f.Clients = []int{random.IntN(s.Clients)}
		return f
	case clients:
		f.Clients = random.Perm(s.Clients)
		return f
	case cluster:
		f.Nodes = random.Perm(s.Nodes)
	case minority:
		f.Nodes = random.Perm(s.Nodes)[:1+random.IntN((s.Nodes-1)/2)]
	case replicated:
		f.Nodes = []int{random.IntN(s.Replicas)}
	default:
		f.Nodes = []int{random.IntN(s.Nodes)}
	}
	f.Amount = s.between(random, h.weakest, h.strongest)
	if h.amounts != nil {
		f.Amount = h.amounts[random.IntN(len(h.amounts))]
	}
	if f.Step() != 0 && random.IntN(2) == 0 { // small ones are hard to see
		f.Amount = s.between(random, h.weakest, 1)
	}
	f.Other = (f.Nodes[0] + 1 + random.IntN(s.Nodes-1)) % s.Nodes
	f.Bytes = random.IntN(64)
	if random.IntN(2) == 0 && s.Clients > 1 { // a part of the clients may be cut off
		f.Clients = slices.Clone(random.Perm(s.Clients)[:1+random.IntN(s.Clients-1)])
		slices.SortFunc(f.Clients, cmp.Compare)
	}
	return f
}

func (s Stage) between(random *rand.Rand, least, most float64) time.Duration {
	return leases(least+random.Float64()*(most-least), s.Lease)
}

// pick takes one, the heavier the likelier.
func pick(random *rand.Rand, from []habit) habit {
	total := 0
	for _, h := range from {
		total += h.weight
	}
	at := random.IntN(total)
	for _, h := range from {
		if at -= h.weight; at < 0 {
			return h
		}
	}
	return from[len(from)-1] // not reached: the weights add up
}
