package schedule

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A condition is that of the nodes after the faults so far.
type condition struct {
	Stage
	random *rand.Rand
	states []state
	forgot time.Duration // when the last that forgot had done so
	quiet  time.Duration // until then none may forget
}

// A state is that of one node.
type state struct {
	free  time.Duration // from when on it can be harmed again
	well  time.Duration // from when on it may vote
	right time.Duration // from when on no client takes its clock for what it was before
	undo  Fault         // what will set its clock right, if that is wrong
}

// wrong reports whether the node's clock is wrong, or some client may think so.
func (n state) wrong(at time.Duration) bool { return n.undo.Nodes != nil || n.right > at }

// How long, in leases, somebody may go by what was before a fault.
const (
	underway  = 1 // a proposal that is on its way
	forgotten = 4 // a client's reading of a clock: it is stopped for 3 at most, and then reads it again
)

// due returns the step that is to take one back now, if it fits where at most so many nodes are
// to be harmed at the same time.
func (c *condition) due(now time.Duration, most int) (f Fault, ok bool) {
	for _, n := range c.states {
		if n.undo.Nodes == nil || n.undo.At > now {
			continue
		}
		f = n.undo
		f.At = now
		if c.fits(f, most) {
			return f, true
		}
	}
	return Fault{}, false
}

// whole returns a fault of all nodes, when it can come, with the one behind it that takes a step
// back, and when another may come.
func (c *condition) whole(f Fault) (faults []Fault, after time.Duration) {
	next := func() time.Duration { // for a quarantine to end, and locks to be taken behind it
		return f.At + f.For + c.between(c.random, 1, 3)
	}
	f.At = c.ready(f)
	faults = append(faults, f)
	if f.Step() != 0 {
		f = f.undone(next())
		faults = append(faults, f)
	}
	return faults, next()
}

// ready returns when a fault of all nodes may come: when the others are over, and, if it sets
// the clocks, when they show more behind it than they did as a node forgot.
func (c *condition) ready(f Fault) time.Duration {
	at := f.At
	for _, n := range c.states {
		at = max(at, n.free)
	}
	if f.Step() != 0 {
		at = max(at, c.forgot+max(0, -f.Step())+leases(underway, c.Lease))
	}
	return at
}

// fits reports whether the fault may come, where at most so many nodes are to be harmed
// at the same time.
func (c *condition) fits(f Fault, most int) bool {
	harmed, wrong := 0, 0
	for i, n := range c.states {
		chosen := slices.Contains(f.Nodes, i)
		if chosen && n.free > f.At {
			return false
		}
		if n.well > f.At || slices.Contains(f.Unwell(), i) {
			harmed++
		}
		if n.wrong(f.At) || chosen {
			wrong++
		}
	}
	switch {
	case f.Kind.forgets() && f.At < c.quiet:
		return false
	case f.Step() != 0 && len(f.Nodes) == 1: // a majority is to be right
		undo := c.states[f.Nodes[0]].undo
		if again := undo.Nodes != nil && undo.Amount != f.Amount; again || wrong > (len(c.states)-1)/2 {
			return false
		}
	}
	return harmed <= most
}

// happens takes in what the fault does.
func (c *condition) happens(f Fault) {
	over := f.At + f.For
	for _, i := range f.Nodes {
		c.states[i].free = over
	}
	for _, i := range f.Unwell() {
		c.states[i].well = max(c.states[i].well, over+f.Kind.Recovery(c.Lease))
	}
	switch {
	case f.Kind.forgets():
		c.forgot = max(c.forgot, over)
	case f.Step() != 0 && len(f.Nodes) == 1:
		n := &c.states[f.Nodes[0]]
		n.right = over + leases(forgotten, c.Lease)
		if n.undo.Nodes == nil {
			n.undo = f.undone(over + c.between(c.random, 0.5, 20))
		} else {
			n.undo = Fault{}
		}
	case f.Step() != 0:
		c.quiet = over + leases(forgotten, c.Lease) + max(0, -f.Step())
	}
}
