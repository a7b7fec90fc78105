package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A request is an operation's part at one node.
type request struct {
	op   *operation
	node *node

	// Guarded by node.mu.
	stage        stage
	ahead        bool   // it has come to the front of its lane
	last         bool   // it was the operation's last to be answered; its sender's own
	list         uint8  // its own of [ages.lists]
	answer       Answer // guarded by claim.mu, as is what stands at the end
	server       uint32 // which one has answered, if it asks for a vote; 0: not known; likewise
	due          clockdrift.Instant
	behind       *request // the next that waits: see [requestList]
	older, newer *request // in the node's list of requests by age

	reply []driver.Reply // to its last sending; its sender's own
	cut   bool           // the claim may have left a counter without an expiry; likewise: see [batch.mend]
	half  *half          // what its first has found, if the second prolongs; likewise: see [dialect.hold]
	shown *condition     // by the look behind its last sending; likewise

	start    clockdrift.Instant // the clock before its first byte left; 0: nothing has
	answered clockdrift.Instant
	err      error
}

// concerns reports whether r and other are about the same token, so that their order matters.
func (r *request) concerns(other *request) bool {
	token := r.op.claim.token
	return token == other.op.claim.token || other.op.old != nil && token == other.op.old.claim.token
}

// A half is what the first sending of a hold without scripts has found.
type half struct {
	said  []driver.Reply
	doubt error // why it would have been no vote
	idle  bool  // the second has written nothing
}

// out is how long ago the request left, if it has.
func (r *request) out(now clockdrift.Instant) time.Duration {
	r.op.claim.mu.Lock()
	defer r.op.claim.mu.Unlock()
	if r.start == 0 {
		return 0
	}
	return now.Sub(r.start)
}

// A stage of a request.
type stage uint8

const (
	waiting stage = iota // in its lane, behind another
	queued               // for the next batch
	sending              // in a batch
	final                // answered, or out of time
)

// late reports whether a guard does not take the vote that has arrived now, because it
// was under way for longer than a node may take: the look behind it speaks of this
// moment, and with fences the number that was accepted is of long ago. The time of all
// its sendings counts. claim.mu is held.
func (r *request) late(now clockdrift.Instant) bool {
	return r.op.claim.locker.options.guard > 0 && now > r.start.Add(r.op.patience())
}
