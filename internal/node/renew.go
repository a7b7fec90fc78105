package node

import (
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// renew has the driver give up its connections, if it can: the node's address may lead to another server by
// now, while the old server keeps connected clients. Since is when the cause was found; later connections
// stay.
//
// A node that has failed is renewed before its next probe, an unfit node before each probe. After a probe
// without any answer the next one uses the same connections: a connection that came too late for the first
// serves the second.
func (n *Node) renew(since clockdrift.Instant) {
	d, can := n.Driver.(driver.Renewer)
	n.mu.Lock()
	if can = can && since >= n.health.renews; can {
		n.health.renews = n.set.Clock.Now()
	}
	n.mu.Unlock()
	if can {
		d.Renew()
	}
}

// meet renews the node before a probe, if that is due.
func (n *Node) meet(now clockdrift.Instant) {
	n.mu.Lock()
	anew := n.health.anew
	n.health.anew = false
	n.mu.Unlock()
	if anew {
		n.renew(now)
	}
}

// onRefused looks for a write that was refused by a replica. Then the next batch asks for the node's
// fitness, over another connection. A Cluster's client is told by MOVED.
func (n *Node) onRefused(replies []driver.Reply, sent clockdrift.Instant) {
	if protocol.Lacks(replies) {
		n.onLack()
	}
	if !slices.ContainsFunc(replies, func(r driver.Reply) bool { return protocol.Says(r, "READONLY") }) {
		return
	}
	n.mu.Lock()
	cluster := n.nature.cluster
	n.nature.due = 0
	n.mu.Unlock()
	if !cluster {
		n.renew(sent)
	}
}

// onLack asks for the node's dialect, for the node lacks a command: its user's rights may have changed.
func (n *Node) onLack() {
	n.mu.Lock()
	n.nature.lacked = true
	n.relearn()
	n.mu.Unlock()
}

// errMoved is the doubt at a vote that was asked for before the address led to another server: the old
// server may have voted.
var errMoved = errors.New("the address leads to another server than when the node was asked")
