package redlock

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A claim is one token's claim to one key, and what is known of it at every node.
type claim struct {
	locker *Locker
	key    string // as the user named it
	token  string
	// keyArg and tokenArg are the key as the nodes know it and the token, boxed once
	// for all commands.
	keyArg, tokenArg any
	fenceArg         any  // the key of its fences, where there are any
	tagged           bool // that key has the hash tag of the other
	own              bool // the token is the user's own

	mu     sync.Mutex    // guards all below, the claim's operations, and its Lock
	loud   bool          // it has held the key, or others may believe so: its releases are announced
	keeps  bool          // [Locker.Close] waits for its clean-ups: see [claim.weigh]
	ttl    time.Duration // the longest lease that it asked for
	traces []trace       // one a node
}

func newClaim(l *Locker, key, token string, ttl time.Duration) claim {
	return claim{
		locker: l, key: key, token: token, ttl: ttl,
		keyArg: l.options.prefix + key, tokenArg: token,
		traces: make([]trace, len(l.nodes)),
	}
}

// longest is the longest lease that the claim has asked for.
func (c *claim) longest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ttl
}

// A trace is what is known of a claim's token at one node.
//
// An unknown outcome is not ended by an answer "not there": a server that was stopped
// runs what lies in its buffers when it wakes up, and not in the order of the
// connections, so that an acquire that timed out may run after its own release.
type trace struct {
	asked int32              // requests that may set the key and have no final answer
	set   int32              // commands that have set the key, or may have
	open  int32              // those of them that have no answer
	lost  int32              // those of the open ones that will get none
	there bool               // a node said that the token has the key
	cut   bool               // nobody knows what came of a fence
	owed  bool               // it is on the node's list of clean-ups
	tries uint8              // releases that have not ended that
	since clockdrift.Instant // when the last command left, was answered or was lost
	heard clockdrift.Instant // when the node first answered after the last loss; 0: not yet
}

// clean reports whether the token is not at the node and cannot appear there.
func (t *trace) clean() bool { return t.asked == 0 && !t.there && t.open == 0 }

// gone reports whether the node said that the token is not there, after all commands that
// may set it had left. A lost one may still set it.
func (t *trace) gone() bool { return t.asked == 0 && !t.there && (t.open == 0 || t.heard != 0) }

// leaves notes that a command that may set the key is about to leave.
func (t *trace) leaves(now clockdrift.Instant) {
	t.set++
	t.open++
	t.since = now
}

// known notes what came of a command that may have set the key.
func (t *trace) known(set bool, now clockdrift.Instant) {
	t.open = max(t.lost, t.open-1)
	if set {
		t.there, t.since = true, now
	} else {
		t.set--
	}
}

// unknown notes that a command that may have set the key gets no answer.
func (t *trace) unknown(now clockdrift.Instant) {
	t.lost = min(t.lost+1, t.open)
	t.since, t.heard = now, 0
}

// answered notes that the node has answered a command that left at start.
func (t *trace) answered(start, now clockdrift.Instant) {
	if t.heard == 0 && start >= t.since {
		t.heard = now
	}
}

// released notes the answer to a release.
func (t *trace) released(deleted bool) {
	t.there = false
	if deleted && t.set == 1 {
		t.open, t.lost = 0, 0 // what was deleted is what the only command set: it has run
	}
}

// outlive forgets what must have expired by now: what the node has said to have set, one TTL
// later; and lost commands one TTL after the node has answered again, for what lay in its
// buffers it has run by then. Later failures of the node do not change that.
func (t *trace) outlive(now clockdrift.Instant, ttl time.Duration) {
	if now >= t.since.Add(ttl) {
		t.there = false
	}
	if t.lost > 0 && t.heard != 0 && now >= t.heard.Add(ttl) {
		t.open, t.lost = t.open-t.lost, 0
	}
}

// outlasted forgets the commands that a server took with it when it ended: what it had
// not run by then nobody will. A release that was sent to its successor has said what
// there is.
func (t *trace) outlasted(reborn, released clockdrift.Instant) {
	if t.since < reborn && reborn <= released {
		t.open, t.lost = 0, 0
	}
}

// forget leaves what is at the node to the TTL.
func (t *trace) forget() { t.open, t.lost, t.there = 0, 0, false }
