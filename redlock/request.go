package redlock

import (
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
	answer       Answer // guarded by claim.mu, as is what stands at the end
	due          clockdrift.Instant
	behind       *request // the next in its lane
	older, newer *request // in the node's list of requests by age

	reply []driver.Reply // to its last sending; its sender's own
	half  []driver.Reply // to its first, if the second prolongs; likewise: see [dialect.hold]

	start    clockdrift.Instant // the clock before its first byte left; 0: nothing has
	answered clockdrift.Instant
	err      error
}

// A stage of a request.
type stage uint8

const (
	waiting stage = iota // in its lane, behind another
	queued               // for the next batch
	sending              // in a batch
	final                // answered, or out of time
)
