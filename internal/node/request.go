package node

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Question is what is asked of several nodes at once, of each by a [Request]. Its methods are
// called by the nodes' goroutines, at the same time for different requests.
type Question interface {
	// Leaves is called before the first byte of r leaves. It reports whether there still is need
	// of an answer.
	Leaves(r *Request, now clockdrift.Instant) bool
	// Out is for how long r has been under way.
	Out(r *Request, now clockdrift.Instant) time.Duration
	// Answered takes what came of a sending of r: its Reply, or else err. Doubt is why the node
	// has no vote, whatever it did. If it counts, it is the final answer; otherwise r is sent
	// once more, or has run out of time before.
	Answered(r *Request, err, doubt error, now clockdrift.Instant, counts bool)
	// Unanswered is the final answer of a request that got no reply: err, or nil if
	// there was no need.
	Unanswered(r *Request, err error, now clockdrift.Instant)
	// Passed is called last: r has its answer, and has made way for the next one of its key.
	Passed(r *Request)
}

// Terms are what the requests of one question have in common.
type Terms struct {
	Question Question
	Keys     *KeyQueues
	More     *More // those of its further keys; nil: there are none
	Asked    clockdrift.Instant
	Due      clockdrift.Instant // when requests fail for want of an answer, if the nodes keep up
	Ends     clockdrift.Instant // the lease that an extension prolongs; 0: it is none
}

// Patience is how long a node may take.
func (t *Terms) Patience() time.Duration { return t.Due.Sub(t.Asked) }

// A Request is a question's part at one node.
type Request struct {
	protocol.Part
	*Terms
	Node     *Node
	Index    int // among the question's requests
	Evidence *gate.Condition

	// Guarded by Node.mu.
	stage        stage
	late         bool  // it goes behind holders: a try, or what has to stay behind one
	place        place // in its key's queue, or in that of the next batch
	fronts       int   // it has come to the front of so many of its keys' queues
	heap         int   // its place among the extensions of the next batch, from 1; 0: it is not there
	list         uint8 // its own of [deadlines.lists]
	due          clockdrift.Instant
	older, newer *Request // in the channel's requests by deadline
}

// Init makes r a request of the question with these terms, for a node. Its answer wants a
// [Node.Submit].
func (r *Request) Init(a *protocol.Ask, t *Terms, n *Node, index int) {
	*r = Request{Part: protocol.Part{Ask: a, Of: r}, Terms: t, Node: n, Index: index, due: t.Due}
}

// Unsent reports whether r has not left yet, nor got an answer.
func (r *Request) Unsent() bool {
	r.Node.mu.Lock()
	defer r.Node.mu.Unlock()
	return r.stage == waiting || r.stage == queued
}

// A stage of a request.
type stage uint8

const (
	waiting stage = iota // in its key's queue, behind another
	queued               // for the next batch
	sending              // in a batch
	final                // answered, or out of time
)
