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

// FirstProbe is how many time-outs the first probe, or a connection, may take: TCP, TLS, HELLO and clients'
// further greetings are a round trip each, up to seven, and each may take most of a time-out.
const FirstProbe = 8

// probe finds out what the node is: before its first batch, and after each failure, for another server may
// be there.
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
		n.nature = nature{
			due: now.Add(fitnessPeriod), unchecked: found.unchecked, evicts: found.evicts,
			dialect: found.dialect, relearns: now.Add(dialectPeriod),
			cluster: found.Cluster, apart: found.Cluster, unasked: true,
		}
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

// probeTimeout is how long a probe may take. Where a lease ends soon and its extension waits for the node,
// the probe gets half of the rest: another probe may be in time.
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

// revisitPause is the time between two probes of a down node without operations.
const revisitPause = 5 * time.Second

// Revisit probes the node in the background if it is down and was not probed of late: without operations
// nobody else finds it up again.
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
	for i := range n.channels { // new requests have waited for the probe's end
		n.channels[i].call()
	}
}

// Findings are the findings of a probe.
type Findings struct {
	gate.Facts
	Warnings  []fault.Event // what the node refused to tell
	answered  bool          // else nothing is known of the node
	unchecked bool          // its user may not ask
	evicts    bool          // the node evicts keys, and may
	reborn    bool          // another server than before
	dialect   protocol.Dialect
}

// findOut asks the node what it is. Whatever makes the node unfit is an error. The time-out is of the first
// question. The gates' questions have one each, or a distant node would never be up.
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
		if len(replies) == 1 && replies[0].Kind == driver.Failure { // then the server hung up: it takes no connection
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
	if err == nil && !n.gates.ReadsClock() { // the gate reads the clock sharper, over a connection that stands
		n.onTime(about[len(about)-1], started, now)
	}
	if err == nil {
		err = n.gates.Probe(&found.Facts)
	}
	return found, now, err
}

// dialectPeriod is how often a node that runs no scripts, or that refused a command, is asked for its
// dialect: its user may have new rights.
const dialectPeriod = time.Second

// relearn asks for the dialect beside the queues, when that is due. n.mu is held.
func (n *Node) relearn() {
	if n.set.Clock.Now() < n.nature.relearns {
		return
	}
	n.nature.relearns, n.nature.lacked = n.set.Clock.Now().Add(dialectPeriod), false
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
			case found.Scriptless == n.nature.dialect.Scriptless:
			case limit != nil:
				n.note(fault.NodeLimited, limit)
			default:
				n.note(fault.NodeUp, nil)
			}
			n.nature.dialect = found
		}
		n.mu.Unlock()
		n.Emit()
	})
}

// nextKey returns the key of a request in the node's next batch. n.mu is held.
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

// Examine reads the node's answers about itself. Whatever makes the node unfit is an error.
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
