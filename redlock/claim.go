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
	ttl    time.Duration // the longest lease that it asked for
	loud   bool          // it has held the key, or others may believe so: its releases are announced
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
	open  int32              // those of them of which nobody knows
	there bool               // a node said that the token has the key
	owed  bool               // a clean-up will try again
	since clockdrift.Instant // when the last of them left, or became unknown
	pause time.Duration      // before the next clean-up
}

// clean reports whether the token is not at the node and cannot appear there.
func (t *trace) clean() bool { return t.asked == 0 && !t.there && t.open == 0 }

// leaves notes that a command that may set the key is about to leave.
func (t *trace) leaves(now clockdrift.Instant) {
	t.set++
	t.open++
	t.since = now
}

// known notes what came of a command that may have set the key.
func (t *trace) known(set bool) {
	t.open = max(0, t.open-1)
	if set {
		t.there = true
	} else {
		t.set--
	}
}

// unknown notes that nobody will say what came of a command that may have set the key.
func (t *trace) unknown(now clockdrift.Instant) { t.since = now }

// released notes the answer to a release.
func (t *trace) released(deleted bool) {
	t.there = false
	if deleted && t.set == 1 {
		t.open = 0 // what was deleted is what the only command set: it has run
	}
}

// outlive forgets what must have expired by now: one TTL has passed since the last
// command left or was given up, and since the node has answered again (zero: it has
// not, and may still have the command before it).
func (t *trace) outlive(now, answers clockdrift.Instant, ttl time.Duration) {
	if now >= t.since.Add(ttl) {
		t.there = false
		if answers != 0 && now >= answers.Add(ttl) {
			t.open = 0
		}
	}
}

// outlasted forgets the commands that a server took with it when it ended: what it had
// not run by then nobody will. A release that was sent to its successor has said what
// there is.
func (t *trace) outlasted(reborn, released clockdrift.Instant) {
	if t.since < reborn && reborn <= released {
		t.open = 0
	}
}
