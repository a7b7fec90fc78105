package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A nodeClock is what is known of a node's wall clock, which decides when keys expire
// there. It is read by TIME once a second, in a batch that goes out anyway.
//
// With [WithClockGuard] it is read behind all votes, and a vote counts only if the clock
// cannot have gained more than leases allow for within the past longest TTL: see
// [clockdrift.Estimator.Excess]. To know that after an idle time, too, a timer reads the
// clock that nothing else reads.
type nodeClock struct {
	estimator *clockdrift.Estimator
	due       clockdrift.Instant // when it is read again
	silent    bool               // the node does not tell it
	fast      bool               // it was reported to run faster or slower than leases allow for

	read  clockdrift.Instant // when it was last read
	out   clockdrift.Instant // until then the guard takes no votes
	why   string
	timer *time.Timer // reads it while nothing else does; nil without the guard
}

// clockPeriod is how often a node's clock is read.
const clockPeriod = time.Second

var askTime = driver.Command{Args: []any{"TIME"}}

// asks says what a batch that leaves now is to ask beside its requests: for the time once a
// second, and with every vote that a step of the clock may spoil; whether the node is fit, once
// a second and always in a batch that is sent once more. A batch that waits for a disk tells
// little of the time, for its replies come late.
func (n *node) asks(now clockdrift.Instant, guarded, proves, again bool) (fit, time bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	always := guarded && n.locker.options.clockGuard > 0
	due := now >= n.clock.due && !proves
	if time = always || !n.clock.silent && due; time {
		n.clock.due = now.Add(clockPeriod)
	}
	fit = (again || now >= n.fit.due) && !n.fit.unchecked && !n.cluster
	if fit {
		n.fit.due = now.Add(fitnessPeriod)
	}
	return fit, time
}

// heardTime takes in what the node's clock showed between two moments. The error is why
// the clock guard takes no vote that was given before; blurred, that a reading which takes less
// time may say otherwise. A step, and a drift that no time service leaves, are reported.
func (n *node) heardTime(reply driver.Reply, sent, received clockdrift.Instant) (blurred bool, doubt error) {
	shown, ok := readTime(reply)
	n.mu.Lock()
	n.clock.silent, n.clock.due = says(reply, "NOPERM") || says(reply, "ERR"), sent.Add(clockPeriod)
	if ok {
		forward := n.compare(clockdrift.Sample{Sent: sent, Received: received, Node: shown})
		doubt = n.guardClock(forward, sent, received)
		blurred = doubt != nil
	}
	n.mu.Unlock()
	if !ok {
		doubt = errBlind
	} else if n.locker.options.fences {
		n.locker.synchronize()
	}
	n.announce()
	return blurred, doubt
}

// errBlind keeps a node from voting whose clock nobody can see.
var errBlind = errors.New("it did not tell its time, so nobody knows whether its clock was set forward (WithClockGuard)")

// guardClock judges the last sample: it takes the node out for as long as leases may run
// that the clock may end early, and returns why it is out for this one time. n.mu is held.
func (n *node) guardClock(forward bool, sent, received clockdrift.Instant) error {
	longest := n.locker.options.clockGuard
	if longest == 0 {
		return nil
	}
	c := &n.clock
	c.read = received
	if c.timer == nil && !n.closed {
		c.timer = time.AfterFunc(c.estimator.Period(), n.watchClock)
	}
	excess, lasts := c.estimator.Excess()
	switch {
	case forward:
		c.out, c.why = received.Add(n.locker.sitOut(longest)), "its clock was set forward"
	case lasts > c.out:
		c.out, c.why = lasts, fmt.Sprintf("its clock may have gained %v more than leases allow for, unseen (WithClockGuard): it was not read for too long, or runs fast", round(excess))
	case excess > 0 && received >= c.out:
		return fmt.Errorf("its clock was read in %v, in which %v more than leases allow for may hide (WithClockGuard): take longer leases, or nodes that are nearer", round(received.Sub(sent)), round(excess))
	}
	return nil
}

// readClock reads the node's clock by itself, and again if that took too long. The doubt is
// that of [node.heardTime].
func (n *node) readClock(ctx context.Context, tries int) (doubt, err error) {
	for range tries {
		sent := n.locker.clock.Now()
		replies, err := n.do(ctx, []driver.Command{askTime})
		if err != nil {
			return nil, err
		}
		var blurred bool
		if blurred, doubt = n.heardTime(replies[0], sent, n.locker.clock.Fresh()); !blurred {
			break
		}
	}
	return doubt, nil
}

// watchClock reads the clock if nothing else has for its period. It is called by the timer.
func (n *node) watchClock() {
	n.mu.Lock()
	defer n.mu.Unlock()
	period := n.clock.estimator.Period()
	left := n.clock.read.Add(period).Sub(n.locker.clock.Now())
	switch {
	case n.closed:
	case left > 0:
		n.clock.timer.Reset(left)
	default:
		n.locker.work.start(func() {
			ctx, cancel := context.WithTimeout(n.locker.life, n.locker.timeout)
			defer cancel()
			_, _ = n.readClock(ctx, 2) // a node that does not answer is left to the next operation
			n.mu.Lock()
			defer n.mu.Unlock()
			if !n.closed {
				n.clock.timer.Reset(period / 4) // and looks whether anything else reads it
			}
		})
	}
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
var meet = &task{name: "acquire", tries: true, agrees: granted, read: readMeeting}

// meets makes an acquire that one.
func (op *operation) meets() {
	op.task = meet
	op.say(&op.lock.words, askTime)
}

// readMeeting takes any answer: the user may not be allowed to ask.
func readMeeting(string, []driver.Reply) (Answer, error) { return Granted, nil }
