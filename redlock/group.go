package redlock

import (
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A group is releases, or extensions, of one batch that go to the node as one command: that
// takes the server 60 % of the time of one for each, and a release takes it three times as
// long as a SET. Order among them does not matter, for they are of different keys.
type group []*request

// maxGroup is how many go together. Their answers are bits of one integer; from 16 on more
// of them gain nothing.
const maxGroup = 32

// groupable reports whether r is an extension that may share a command. One that carries a
// fence has commands of its own behind it, which no script has a part in.
func (r *request) groupable() bool { return r.op.task.prolongs && r.op.fence == 0 }

// extend appends the arguments of the command that prolongs the group's leases to args.
func (g group) extend(args []any) []any {
	args = scripts.Extend.Call(args, len(g))
	for _, r := range g {
		args = append(args, r.op.claim.keyArg)
	}
	for _, r := range g {
		args = append(args, r.op.claim.tokenArg)
	}
	for _, r := range g {
		args = append(args, r.op.claim.locker.milliseconds(r.op.ttl))
	}
	return args
}

// release appends the arguments of the command that deletes the group's keys to args. If it
// is loud, that is announced; always says that the node cannot know whether anybody listens.
func (g group) release(args []any, loud, always bool) []any {
	args = scripts.Release.Call(args, len(g))
	for _, r := range g {
		args = append(args, r.op.claim.keyArg)
	}
	for _, r := range g {
		args = append(args, r.op.claim.tokenArg)
	}
	if loud {
		args = append(args, wakeChannel) // the keys have their prefix
	}
	if loud && always {
		args = append(args, "1")
	}
	return args
}

// The answers of a node to one release.
var (
	notThere = []driver.Reply{{Kind: driver.Integer, Int: 0}}
	deleted  = []driver.Reply{{Kind: driver.Integer, Int: 1}}
)

// The answers of a node to one of a group of extensions.
var (
	heldByAnother = []driver.Reply{{Kind: driver.Integer, Int: 0}}
	prolonged     = []driver.Reply{{Kind: driver.Integer, Int: 1}}
)

// share gives each request its part of the replies. It reports false if they say
// nothing of the single ones. So it is where a user may not touch one of the keys, or one
// holds something that is no lock, and on a Redis Cluster, where keys live on different
// servers.
func (g group) share(said []driver.Reply) bool {
	for _, r := range g {
		r.reply = said
	}
	extends := g[0].op.task != release
	if said == nil || extends && len(g) == 1 {
		return true
	}
	bits, no, yes := said[0].Int, heldByAnother, prolonged
	if !extends {
		bits, _, _ = released(said[0])
		no, yes = notThere, deleted
	}
	if said[0].Kind != driver.Integer || bits < 0 || bits >= 1<<len(g) {
		return len(g) == 1
	}
	for i, r := range g {
		r.reply = no
		if bits>>i&1 == 1 {
			r.reply = yes
		}
	}
	return true
}

// released takes apart what the script returns: one bit for each key that was deleted,
// how many listen at the node, and whether it let nobody hear of it.
func released(reply driver.Reply) (bits, listeners int64, muted bool) {
	sum := reply.Int
	if muted = sum < 0; muted {
		sum = -1 - sum
	}
	return sum & (1<<32 - 1), sum >> 32, muted
}

// manner is how a node takes releases and extensions.
type manner struct {
	dialect
	group   int  // so many releases go together
	extends int  // so many extensions
	loud    bool // they may be announced
	always  bool // it cannot know whether anybody listens
	publish bool // somebody may listen: see [batch.release]
}

func (n *node) manner() manner {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := manner{
		dialect: n.dialect, group: maxGroup, extends: maxGroup, loud: !n.muted, always: n.cluster,
		// In a Cluster it might arrive before what it announces has happened.
		publish: !n.muted && !n.cluster && (n.unasked || n.listeners > 0),
	}
	if n.apart || n.dialect.deletes != byScript {
		m.group = 1
	}
	if n.apart || n.dialect.scriptless {
		m.extends = 1
	}
	return m
}

// ungroup notes that the node does not take several keys in one command. It is tried again
// when the node has been away. A key that holds something else says nothing of the others.
func (n *node) ungroup(said driver.Reply) {
	if said.Kind == driver.Failure && strings.Contains(said.Str, "WRONGTYPE") {
		return
	}
	n.mu.Lock()
	n.apart = true
	n.mu.Unlock()
}

// announced notes what the reply to a loud release by script says: how many listen at the
// node, and that it does not let releases be announced.
func (n *node) announced(reply driver.Reply) {
	_, listeners, muted := released(reply)
	n.listening(listeners)
	if muted {
		n.mute()
	}
}

// listening notes how many listen at the node.
func (n *node) listening(listeners int64) {
	n.mu.Lock()
	n.listeners, n.unasked = listeners, false
	n.mu.Unlock()
}

// mute notes that the node does not let releases be announced, which the user is told.
func (n *node) mute() {
	n.mu.Lock()
	if !n.muted {
		n.muted = true
		n.news = append(n.news, Event{NodeMuted, n.name, errForbidden})
	}
	n.mu.Unlock()
	n.announce()
}
