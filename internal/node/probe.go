package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// probeCommands ask a node what it is, and its time.
var probeCommands = append(slices.Clip(protocol.AskFitness), protocol.AskTime)

// FirstProbe is how many time-outs the first probe may take, and a connection: TCP, TLS, HELLO and
// what clients say besides are a round trip each, up to seven, which may all take most of a time-out.
const FirstProbe = 8

// probe asks the node what it is: before its first batch, and again after it has failed, for it
// may have come back as something else.
func (n *Node) probe() {
	s := n.set
	started := s.Clock.Now()
	n.meet(started)
	found, now, err := n.findOut(started, n.probeTimeout(started))

	n.mu.Lock()
	n.health.anew = found.answered && err != nil
	if err != nil {
		if n.health.state != down {
			n.note(fault.NodeDown, err)
		}
		n.health.turn(down, err, now)
		n.health.coolDown(now, now.Sub(started))
		var silence *fault.SilenceError
		if errors.As(err, &silence) {
			err = &probeError{silence}
		}
		n.fail(err)
	} else {
		for _, warning := range found.Warnings {
			n.note(warning.Kind, warning.Err)
		}
		n.note(fault.NodeUp, nil)
		n.health.turn(up, nil, now)
		n.health.met = true
		if found.reborn {
			n.health.reborn = started
		}
		n.channels[0].window.note(now.Sub(started))
		n.cluster, n.apart, n.muted = found.Cluster, found.Cluster, false
		n.fitness = fitness{due: now.Add(fitnessPeriod), unchecked: found.unchecked, evicts: found.evicts}
		n.listeners, n.unasked = 0, true
		n.dialect, n.relearns = found.dialect, now.Add(dialectPeriod)
		for i := range n.channels {
			n.channels[i].call()
		}
	}
	n.mu.Unlock()
	n.Emit()
	if err != nil {
		return
	}
	n.TryNow()
	if n.set.Back != nil {
		n.set.Back(n)
	}
}

// probeTimeout is how long the probe may take that begins now. Where a lease ends soon that waits for the node to
// prolong it, half of its rest is left for that: another probe may be in time.
func (n *Node) probeTimeout(now clockdrift.Instant) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	timeout := n.set.Timeout
	if n.health.state == fresh {
		return FirstProbe * timeout
	}
	for i := range n.channels {
		if waiting := n.channels[i].queue.extensions; len(waiting) > 0 {
			timeout = min(timeout, max(waiting[0].Ends.Sub(now)/2, FirstProbe*n.channels[0].window.trip(), MinCooldown))
		}
	}
	return timeout
}

// revisitPause is how often a node that is down is probed though no operation asks for it.
const revisitPause = 5 * time.Second

// Revisit probes the node in the background if it is down and was not probed of late: nobody else
// finds out that it is back while there are no operations.
func (n *Node) Revisit() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.health.state != down || n.probing || n.called() || n.set.Clock.Now() < n.health.probed.Add(revisitPause) {
		return
	}
	n.probing = n.set.Go(n.revisit)
}

// revisit probes the node beside its senders.
func (n *Node) revisit() {
	n.probe()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probing = false
	for i := range n.channels { // what has come meanwhile waits for the probe's end
		n.channels[i].call()
	}
}

// Findings are what a probe has found.
type Findings struct {
	gate.Facts
	Warnings  []fault.Event // what it would not say
	answered  bool          // else nothing is known of it
	unchecked bool          // its user may not ask
	evicts    bool          // it does, and may
	reborn    bool          // it is another server than before
	dialect   protocol.Dialect
}

// findOut asks the node what it is. What may not be is an error. The time-out is of the first
// question; what gates ask has one of its own each, or a node that is far would never be up.
func (n *Node) findOut(started clockdrift.Instant, timeout time.Duration) (found Findings, now clockdrift.Instant, err error) {
	s := n.set
	ctx, cancel := context.WithTimeout(s.Life, timeout)
	defer cancel()
	one, other := s.Random.Token(""), s.Random.Token("")
	n.mu.Lock()
	key := n.nextKey()
	n.mu.Unlock()
	replies, err := n.Do(ctx, slices.Concat(probeCommands, protocol.Probes(key, one, other)))
	if err != nil {
		if len(replies) == 1 && replies[0].Kind == driver.Failure { // and then it has hung up: it takes no connection
			err = fmt.Errorf("%w: %w", driver.Refusal(replies[0].Str), err)
		}
		now = s.Clock.Fresh()
		return found, now, n.explain(ctx, err, min(timeout, now.Sub(started)))
	}
	about, behind := replies[:len(probeCommands)], replies[len(probeCommands):]
	found, err = n.Examine(about)
	found.answered = true
	found.dialect = protocol.DecodeProbes(behind)
	if limit := found.dialect.Limits(); limit != nil {
		found.warn(n, fault.NodeLimited, limit)
	}
	now = s.Clock.Fresh()
	if err == nil && !n.gates.ReadsClock() { // which reads it sharper than what the connection was made for
		n.onTime(about[len(about)-1], started, now)
	}
	if err == nil {
		err = n.gates.Probe(&found.Facts)
	}
	return found, now, err
}

// dialectPeriod is how often a node that runs no scripts is asked whether it does now: its user may
// have been allowed to. So is one that has refused a command.
const dialectPeriod = time.Second

// relearn asks for that beside the queues, when it is due. n.mu is held.
func (n *Node) relearn() {
	if n.set.Clock.Now() < n.relearns {
		return
	}
	n.relearns, n.lacked = n.set.Clock.Now().Add(dialectPeriod), false
	key := n.nextKey()
	n.set.Go(func() {
		replies, err := n.Beside(protocol.Probes(key, n.set.Random.Token(""), n.set.Random.Token("")))
		if err != nil || !protocol.Tell(replies) {
			return
		}
		found := protocol.DecodeProbes(replies)
		n.mu.Lock()
		if n.health.state == up {
			switch limit := found.Limits(); {
			case found.Scriptless == n.dialect.Scriptless:
			case limit != nil:
				n.note(fault.NodeLimited, limit)
			default:
				n.note(fault.NodeUp, nil)
			}
			n.dialect = found
		}
		n.mu.Unlock()
		n.Emit()
	})
}

// nextKey returns a key that the node's next batch is about. n.mu is held.
func (n *Node) nextKey() any {
	for i := range n.channels {
		if key := n.channels[i].queue.key(); key != nil {
			return key
		}
	}
	return n.set.Prefix
}

func (f *Findings) warn(n *Node, kind fault.Kind, err error) {
	f.Warnings = append(f.Warnings, fault.Event{Kind: kind, Node: n.name, Err: err})
}

// Examine reads what the node says of itself. What may not be is an error.
func (n *Node) Examine(replies []driver.Reply) (found Findings, err error) {
	told := replies[len(protocol.AskFitness)]
	for i, reply := range replies[:len(protocol.AskFitness)] {
		if err := reply.Err(); err != nil {
			found.Warnings = found.Warnings[:0] // one right is missing
			found.warn(n, fault.NodeUnchecked, unchecked(i, err))
			found.unchecked = true
			if !protocol.Answers(err) {
				return found, fault.Advise(err)
			}
		}
	}
	f := protocol.ReadFacts(replies[:len(protocol.AskFitness)])
	if err := f.Replica(); err != nil {
		return found, err
	}
	if found.reborn, err = n.identify(&f); err != nil {
		return found, err
	}
	if err := told.Err(); err != nil && n.set.NeedsTime {
		found.warn(n, fault.NodeUnchecked, fmt.Errorf("%w: without TIME fences do not follow its clock: %s", err, fault.Without(err, "time")))
	}
	found.Facts = gate.Facts{Cluster: f.Mode == "cluster", History: f.History != ""}
	if told.Kind != driver.Array {
		found.Timeless = protocol.Unexpected(driver.Reply{Kind: told.Kind, Str: told.Str})
	}
	if err := f.Evicting(); err != nil {
		if !n.set.EvictingOK {
			return found, err
		}
		found.evicts = true
		found.warn(n, fault.NodeEvicts, err)
	}
	return found, nil
}
