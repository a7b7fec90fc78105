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
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A clock is what is known of a node's wall clock, which decides when keys expire there. It is
// read by TIME once a second, in a batch that goes out anyway.
//
// With a [gate.Clock] it is read behind all votes. To know it after an idle time, too, a timer
// reads the clock that nothing else reads.
type clock struct {
	estimator *clockdrift.Estimator
	due       clockdrift.Instant // when it is read again
	silent    bool               // the node does not tell it
	fast      bool               // it was reported to run faster or slower than leases allow for

	read  clockdrift.Instant // when it was last read
	timer *time.Timer        // reads it while nothing else does; nil without the gate
}

// clockPeriod is how often a node's clock is read.
const clockPeriod = time.Second

// onTime takes in what the node's clock showed between two moments. A step, and a drift that no
// time service leaves, are reported.
func (n *Node) onTime(reply driver.Reply, sent, received clockdrift.Instant) gate.Reading {
	shown, ok := protocol.ReadTime(reply)
	r := gate.Reading{OK: ok, Sent: sent, Received: received}
	n.mu.Lock()
	n.clock.silent, n.clock.due = protocol.Says(reply, "NOPERM") || protocol.Says(reply, "ERR"), sent.Add(clockPeriod)
	if ok {
		r.Forward = n.compare(clockdrift.Sample{Sent: sent, Received: received, Node: shown})
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

// Microseconds is the time since 1970 by the node's clock, which shows more by now, unless it was
// set back. It is far off where the clock was not read yet.
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

// watchClock reads the clock if nothing else has for its period. It is called by the timer.
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
				n.clock.timer.Reset(period / 4) // and looks whether anything else reads it
			}
		})
	}
}

// compare takes a sample in, and reports whether the clock was set forward since the one before.
// n.mu is held.
func (n *Node) compare(s clockdrift.Sample) (forward bool) {
	step, stepped := n.clock.estimator.Add(s)
	if stepped {
		n.note(fault.NodeClockStepped, stepError(step))
		n.clock.fast = false
	}
	limit := min(n.set.Drift, worthTelling) * 1e6
	if low, high, ok := n.clock.estimator.Drift(); ok && !n.clock.fast && (low > limit || high < -limit) {
		n.clock.fast = true
		n.note(fault.NodeClockDrifts, fmt.Errorf(
			"its clock runs %.0f to %.0f ppm faster than ours; leases allow for %.0f either way: mend the clock, or raise WithDriftFactor",
			low, high, n.set.Drift*1e6))
	}
	return step.Low > 0
}

// worthTelling is the drift that no clock under NTP has, which slews by half as much.
const worthTelling = 500e-6

func stepError(step clockdrift.Bounds) error {
	switch {
	case step.Low > 0:
		return fmt.Errorf("its clock was set forward by %v to %v, so keys may have expired early there (see WithClockGuard): let a time service slew it", gate.Round(step.Low), gate.Round(step.High))
	default:
		return fmt.Errorf("its clock was set back by %v to %v, so keys stay longer there: let a time service slew it", gate.Round(-step.High), gate.Round(-step.Low))
	}
}
