package node

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A clock is our knowledge of a node's wall clock, which decides when keys expire there. TIME reads the
// clock once a second, in a batch that goes out anyway.
//
// With a [gate.Clock], TIME follows all votes. A timer reads the clock when nothing else does, so that an
// idle time hides no step.
type clock struct {
	estimator *nodeclock.Estimator
	due       clockdrift.Instant // the next reading
	silent    bool               // the node does not tell its time
	fast      bool               // a drift beyond the leases' allowance was reported

	read  clockdrift.Instant // the last reading
	timer *time.Timer        // nil without the gate
}

// clockPeriod is how often a node's clock is read.
const clockPeriod = time.Second

// onTime takes in a reading of the node's clock. A step is reported, and so is a drift that no time service
// leaves.
func (n *Node) onTime(reply driver.Reply, sent, received clockdrift.Instant) gate.Reading {
	shown, ok := protocol.ReadTime(reply)
	r := gate.Reading{OK: ok, Sent: sent, Received: received}
	n.mu.Lock()
	n.clock.silent, n.clock.due = protocol.Says(reply, "NOPERM") || protocol.Says(reply, "ERR"), sent.Add(clockPeriod)
	if ok {
		r.Forward = n.compare(nodeclock.Sample{Sent: sent, Received: received, Node: shown})
		if n.gates.ReadsClock() {
			n.clock.read = received
			if n.clock.timer == nil && !n.closed {
				n.clock.timer = time.AfterFunc(n.clock.estimator.Period(), n.watchClock)
			}
			r.Excess, r.Lasts = n.clock.estimator.Excess()
		}
	}
	n.mu.Unlock()
	n.gates.Note(&r)
	if ok && n.set.NeedsTime {
		n.set.synchronize()
	}
	n.Emit()
	return r
}

// Microseconds is the time since 1970 by the node's clock, at the least: unless the clock was set back, it
// shows more by now. It is far off before the first reading.
func (n *Node) Microseconds() int64 {
	now := n.set.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	offset, ok := n.clock.estimator.Offset(now)
	if !ok {
		return math.MaxInt64
	}
	return int64(now.Add(offset.Low)) / int64(time.Microsecond)
}

// ReadClock reads the node's clock by itself, and again if that took too long.
func (n *Node) ReadClock() (gate.Reading, error) { return n.readClock(n.set.Life, 2) }

func (n *Node) readClock(ctx context.Context, tries int) (r gate.Reading, err error) {
	for range tries {
		sent := n.set.Clock.Now()
		replies, err := n.beside(ctx, []driver.Command{protocol.AskTime})
		if err != nil {
			return r, err
		}
		if r = n.onTime(replies[0], sent, n.set.Clock.Fresh()); !r.Blurred && r.OK {
			break
		}
	}
	return r, nil
}

// watchClock reads the clock if nothing else did for its period. The timer calls it.
func (n *Node) watchClock() {
	n.mu.Lock()
	defer n.mu.Unlock()
	period := n.clock.estimator.Period()
	left := n.clock.read.Add(period).Sub(n.set.Clock.Now())
	switch {
	case n.closed:
	case left > 0:
		n.clock.timer.Reset(left)
	default:
		n.set.Go(func() {
			_, _ = n.ReadClock() // a node that does not answer is left to the next operation
			n.mu.Lock()
			defer n.mu.Unlock()
			if !n.closed {
				n.clock.timer.Reset(period / 4) // and looks for other readings
			}
		})
	}
}

// compare takes a sample in, and reports whether the clock was set forward since the last sample. n.mu is
// held.
func (n *Node) compare(s nodeclock.Sample) (forward bool) {
	step, stepped := n.clock.estimator.Add(s)
	if stepped {
		n.note(fault.NodeClockStepped, stepError(step))
		n.clock.fast = false
	}
	limit := min(n.set.Drift, worthTelling) * 1e6
	if low, high, ok := n.clock.estimator.Drift(); ok && !n.clock.fast && (low > limit || high < -limit) {
		n.clock.fast = true
		n.note(fault.NodeClockDrifts, fmt.Errorf(
			"its clock runs %.0f to %.0f ppm faster than ours; leases allow for %.0f either way: fix the clock, or raise WithDriftFactor",
			low, high, n.set.Drift*1e6))
	}
	return step.Low > 0
}

// worthTelling is the drift that no clock under NTP has, which slews by half as much.
const worthTelling = 500e-6

func stepError(step nodeclock.Bounds) error {
	switch {
	case step.Low > 0:
		return fmt.Errorf("its clock was set forward by %v to %v, so keys may have expired early there (see WithClockGuard): let a time service slew it", gate.Round(step.Low), gate.Round(step.High))
	default:
		return fmt.Errorf("its clock was set back by %v to %v, so keys stay longer there: let a time service slew it", gate.Round(-step.High), gate.Round(-step.Low))
	}
}
