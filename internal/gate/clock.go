package gate

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A Clock keeps a node from voting whose clock was set forward, which may have ended leases early
// there, for as long as such leases may run: see redlock.WithClockGuard. The node reads its clock
// behind all votes, and a vote counts only if the clock cannot have gained more than leases allow
// for within the past longest TTL: see [nodeclock.Estimator.Excess].
type Clock struct {
	Longest time.Duration // the longest TTL
	Drift   float64

	gates *Gates
	out   clockdrift.Instant // until then there are no votes; guarded by gates.mu
	why   string
}

// A Reading is what a reading of a node's clock shows.
type Reading struct {
	OK             bool // the node has told its time
	Sent, Received clockdrift.Instant
	Forward        bool               // it was set forward since the reading before
	Excess         time.Duration      // it may have gained so much more than leases allow for,
	Lasts          clockdrift.Instant // of which leases may suffer until then
	Doubt          error              // by [Clock.Note]
	Blurred        bool               // a reading that takes less time may say otherwise
}

// errBlind keeps a node from voting whose clock nobody can see.
var errBlind = errors.New("it did not tell its time, so nobody knows whether its clock was set forward (WithClockGuard)")

// Note takes a reading in, and adds to it why there is no vote for this one time.
func (c *Clock) Note(r *Reading) {
	if !r.OK {
		r.Doubt = errBlind
		return
	}
	c.gates.mu.Lock()
	defer c.gates.mu.Unlock()
	switch {
	case r.Forward:
		c.out, c.why = r.Received.Add(SitOut(c.Longest, c.Drift)), "its clock was set forward"
	case r.Lasts > c.out:
		c.out, c.why = r.Lasts, fmt.Sprintf("its clock may have gained %v more than leases allow for, unseen (WithClockGuard): it was not read for too long, or runs fast", Round(r.Excess))
	case r.Excess > 0 && r.Received >= c.out:
		r.Blurred = true
		r.Doubt = fmt.Errorf("its clock was read in %v, in which %v more than leases allow for may hide (WithClockGuard): take longer leases, or nodes that are nearer", Round(r.Received.Sub(r.Sent)), Round(r.Excess))
	}
}

// Round rounds a duration to what is worth telling.
func Round(d time.Duration) time.Duration { return d.Round(max(d/1000, time.Microsecond)) }

// probe reads the clock once more, sharper than what the connection was made for.
func (c *Clock) probe(f *Facts) error {
	switch {
	case f.Cluster:
		return fmt.Errorf("%w: it is a Redis Cluster, whose servers have a clock each: WithClockGuard needs single servers", fault.ErrNode)
	case f.Timeless != nil:
		return fmt.Errorf("%w: it does not tell its time, which WithClockGuard needs: %s: %w", fault.ErrNode, fault.Without(f.Timeless, "time"), f.Timeless)
	}
	_, err := c.gates.node.ReadClock()
	return err
}

// judge judges by the reading of the batch.
func (c *Clock) judge(s *Sending) Verdict {
	switch r := &s.Reading; {
	case !r.OK && s.Err != nil:
		return Verdict{Doubt: s.Err}
	case !r.OK:
		return Verdict{Doubt: errBlind}
	case r.Doubt != nil:
		return Verdict{Doubt: r.Doubt}
	}
	return c.quarantine(s.Received)
}

// quarantine says whether the node sits out. gates.mu is held.
func (c *Clock) quarantine(now clockdrift.Instant) Verdict {
	if now < c.out {
		return Verdict{Doubt: &quarantineError{why: c.why, left: c.out.Sub(now)}, Closed: true}
	}
	return Verdict{}
}
