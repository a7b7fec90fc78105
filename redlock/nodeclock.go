package redlock

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A nodeClock is what is known of a node's wall clock, which decides when keys expire
// there. It is read by TIME once a second, in a batch that goes out anyway.
type nodeClock struct {
	estimator *clockdrift.Estimator
	due       clockdrift.Instant // when it is read again
	silent    bool               // the node does not tell it
	fast      bool               // it was reported to run faster or slower than leases allow for
}

// clockPeriod is how often a node's clock is read.
const clockPeriod = time.Second

var askTime = driver.Command{Args: []any{"TIME"}}

// timeDue reports whether a batch that leaves now is to ask for the time: once a second,
// and with every vote that a step of the clock may spoil. A batch that waits for a disk
// tells little, for its replies come late.
func (n *node) timeDue(now clockdrift.Instant, guarded, proves bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	always := guarded && n.locker.options.clockGuard > 0
	due := now >= n.clock.due && !proves
	if !always && (n.clock.silent || !due) {
		return false
	}
	n.clock.due = now.Add(clockPeriod)
	return true
}

// heardTime takes in what the node's clock showed between two moments, and reports false if
// it did not show it. A step, and a drift that no time service leaves, are reported.
func (n *node) heardTime(reply driver.Reply, sent, received clockdrift.Instant) (ok bool) {
	shown, ok := readTime(reply)
	n.mu.Lock()
	n.clock.silent, n.clock.due = says(reply, "NOPERM") || says(reply, "ERR"), sent.Add(clockPeriod)
	if ok {
		if n.compare(clockdrift.Sample{Sent: sent, Received: received, Node: shown}) && n.locker.options.clockGuard > 0 {
			n.guard.stepped = received.Add(n.locker.sitOut(n.locker.options.clockGuard))
		}
	}
	n.mu.Unlock()
	if ok {
		n.locker.synchronize()
	}
	n.announce()
	return ok
}

// compare takes a sample in, and reports whether the clock was set forward since the one
// before. n.mu is held.
func (n *node) compare(s clockdrift.Sample) (forward bool) {
	step, stepped := n.clock.estimator.Add(s)
	if stepped {
		n.news = append(n.news, Event{NodeClockStepped, n.name, stepError(step)})
		n.clock.fast = false
	}
	limit := min(n.locker.options.drift, worthTelling) * 1e6
	if low, high, ok := n.clock.estimator.Drift(); ok && !n.clock.fast && (low > limit || high < -limit) {
		n.clock.fast = true
		n.news = append(n.news, Event{NodeClockDrifts, n.name, fmt.Errorf(
			"its clock runs %.0f to %.0f ppm faster than ours; leases allow for %.0f either way: mend the clock, or raise WithDriftFactor",
			low, high, n.locker.options.drift*1e6)})
	}
	return step.Low > 0
}

// worthTelling is the drift that no clock under NTP has, which slews by half as much.
const worthTelling = 500e-6

func stepError(step clockdrift.Bounds) error {
	switch {
	case step.Low > 0:
		return fmt.Errorf("its clock was set forward by %v to %v, so keys may have expired early there (see WithClockGuard): let a time service slew it", round(step.Low), round(step.High))
	default:
		return fmt.Errorf("its clock was set back by %v to %v, so keys stay longer there: let a time service slew it", round(-step.High), round(-step.Low))
	}
}

func round(d time.Duration) time.Duration { return d.Round(max(d/1000, time.Microsecond)) }

// readTime reads the reply to TIME: seconds and microseconds.
func readTime(reply driver.Reply) (shown time.Time, ok bool) {
	if reply.Kind != driver.Array || len(reply.Elems) != 2 {
		return time.Time{}, false
	}
	seconds, err1 := strconv.ParseInt(reply.Elems[0].Str, 10, 64)
	micros, err2 := strconv.ParseInt(reply.Elems[1].Str, 10, 64)
	return time.Unix(seconds, micros*1000), err1 == nil && err2 == nil && micros >= 0 && micros < 1e6
}

// nodeTime is the median of the nodes' clocks.
type nodeTime struct {
	offset atomic.Int64 // to [Locker.clock]
	known  atomic.Bool
}

// synchronize finds the median of the nodes' clocks again.
func (l *Locker) synchronize() {
	now := l.clock.Now()
	offsets := make([]clockdrift.Bounds, 0, len(l.nodes))
	for _, n := range l.nodes {
		n.mu.Lock()
		if offset, ok := n.clock.estimator.Offset(now); ok {
			offsets = append(offsets, offset)
		}
		n.mu.Unlock()
	}
	if median, _ := clockdrift.Median(offsets); len(offsets) >= l.quorum {
		l.time.offset.Store(int64(median.Mid()))
		l.time.known.Store(true)
	}
}

// microseconds is the time since 1970 by the median of the nodes' clocks, or by our own
// where too few nodes have told theirs.
func (l *Locker) microseconds() int64 {
	if !l.time.known.Load() {
		return time.Now().UnixMicro()
	}
	return int64(l.clock.Now().Add(time.Duration(l.time.offset.Load()))) / int64(time.Microsecond)
}

// meet only reaches the nodes, so that they have told their clocks before the first fence
// is proposed: that of a machine whose own clock is years off must not be heard of.
var meet = &task{name: "acquire", agrees: granted, read: readMeeting}

// meets makes an acquire that one.
func (op *operation) meets() {
	op.task = meet
	op.say(&op.lock.words, askTime)
}

// readMeeting takes any answer: the user may not be allowed to ask.
func readMeeting(string, []driver.Reply) (Answer, error) { return Granted, nil }
