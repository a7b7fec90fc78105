package node

import (
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// renew has the driver give up its connections, if it can: the node's address may lead to another
// server by now, while the old one keeps what is connected. Since is when the cause was found out;
// connections that were made after that stay.
//
// A node that has failed is renewed before its next probe, and a node that is unfit before each
// probe. Where a probe got no answer at all, the next one is asked without: a connection that came
// too late for the one serves the other.
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

// onRefused looks for a write in a batch that was refused because the server is a replica. The next
// batch asks whether the node is fit, over another connection. A Cluster's client is told by MOVED.
func (n *Node) onRefused(replies []driver.Reply, sent clockdrift.Instant) {
	if protocol.Lacks(replies) {
		n.onLack()
	}
	if !slices.ContainsFunc(replies, func(r driver.Reply) bool { return protocol.Says(r, "READONLY") }) {
		return
	}
	n.mu.Lock()
	cluster := n.cluster
	n.fitness.due = 0
	n.mu.Unlock()
	if !cluster {
		n.renew(sent)
	}
}

// onLack asks the node again which commands it runs, for it has refused one, or would: its user may
// have fewer rights than before, or more.
func (n *Node) onLack() {
	n.mu.Lock()
	n.lacked = true
	n.relearn()
	n.mu.Unlock()
}

// errMoved keeps a vote from counting that was asked for before the node became another server: it
// may be a vote of the old one.
var errMoved = errors.New("the address leads to another server than when the node was asked")
