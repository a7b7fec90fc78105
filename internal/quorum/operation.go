package quorum

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// An Operation is a question to the nodes about a hold. Its requests enter the queues of all nodes at once.
// The deciding vote decides it: success when a quorum agrees, failure as soon as no quorum can. The
// remaining answers come in the background and are still noted.
type Operation struct {
	protocol.Ask
	node.Terms
	lease.Round // the votes; guarded by Hold.mu, as are all fields below
	Hold        *Hold
	Lease       time.Duration      // the wanted lease, or the hold's longest
	Done        chan struct{}      // closed when decided
	Full        chan struct{}      // closed when all nodes have answered, or of a failed acquire the near: see Late; nil: nobody waits
	Attempt     int32              // of a renewal: 1 for the first since a carried one
	Seen        string             // of an acquire: the token in the way of the call's last tries; "": none
	Since       clockdrift.Instant // the first of them

	// Handoff is the release in a hand-over.
	Handoff *Operation
	// Beside is the hold of the lock's other token, in a conversion or its clean-up; nil: the question is
	// about one token.
	Beside *Hold

	queued int // requests that waited behind others of their keys when they entered
	state  *keyState
	others []*keyState // of its further keys

	// Guarded by Hold.mu.
	Interrupt error              // why it was dropped
	Over      clockdrift.Instant // when the deciding vote was counted
	Early     bool               // it has failed without nodes that have not answered

	votes      []vote
	due        effects      // when Hold.mu is free
	submitted  bool         // to all nodes
	behind     []*node.Node // of a release: nodes with another token of the lock, known or possible, when it was made
	dismissed  bool         // nobody waits for late answers
	filled     bool         // all nodes have answered
	unanswered bool         // a release, or the hand-over in its place, was sent and got no answer
	holders    []holderView
	early      *time.Timer // to Early; nil: the operation was not contested
	setAt      int         // nodes that have set the key, whether or not their grant is a vote

	// whole, if not nil, is called once all nodes have answered.
	whole func(op *Operation)

	before *Operation // of its hold, asked before: see [Hold.Recall]
}

// A vote is a request and its outcome. All fields but the request are guarded by Hold.mu.
type vote struct {
	node.Request
	lease.Vote
	last     bool   // the last answer to the operation; for its sender alone
	told     bool   // the final answer is the node's reply. Otherwise a late reply may still be written into the request
	server   uint32 // of the answer, if the operation is a vote; 0: not known
	answered clockdrift.Instant
	err      error
}

// Effects are the work after an answer that is done without Hold.mu, in this order: see [Operation.unlock].
type effects uint8

const (
	recalls   effects = 1 << iota // take back requests that have not left: the clean-up would go behind them
	clears                        // clear the hold: a new try must find the clean-up before it in the key's queue
	decides                       // close Done
	fills                         // close Full
	completes                     // call whole
)

var errNeedless = errors.New("not asked any more: its answer could not change the outcome")

func (op *Operation) board() *Board { return op.Hold.Board }

// Prepare makes op the question of a kind about the hold, for a lease of ttl. Its commands want an Encode.
func (op *Operation) Prepare(h *Hold, what *protocol.Op, ttl time.Duration) {
	op.Hold, op.Lease = h, ttl
	op.Op, op.Key, op.Token, op.Fence, op.Many, op.Line = what, h.key, h.token, h.set, h.Many, h.Line
	op.TTL, op.Sides = h.Board.Milliseconds(ttl), h.sides
}

// About makes a question to nodes about a key and no token. It waits in the key's queue. The caller sets its
// commands.
func (b *Board) About(key string, what *protocol.Op) *Operation {
	h := new(Hold)
	h.Init(b, nil, key, "", b.TTL)
	op := &h.Acquire
	op.Prepare(h, what, b.TTL)
	return op
}

// Listening returns which of the keys, by the nodes' names, somebody listens for at the node; nil: the node does not tell.
func (b *Board) Listening(at *node.Node, keys []string) []bool {
	if at == nil {
		return nil
	}
	op := b.About(strings.TrimPrefix(keys[0], b.Prefix)+" waits", protocol.Listening)
	op.Cmds = protocol.AskListening(keys)
	if !op.AskOf([]*node.Node{at}, 1) {
		return nil
	}
	op.Await(context.Background(), b.Closing)
	if op.Verdict != lease.Carried {
		return nil
	}
	return op.Tally().Votes[0].Reply.Listeners(len(keys))
}

// Reserve gives op and other memory for their votes.
func (op *Operation) Reserve(other *Operation) {
	nodes := len(op.board().Nodes)
	votes := make([]vote, 2*nodes)
	op.votes, other.votes = votes[:nodes:nodes], votes[nodes:]
}

// AskAll puts the operation before all nodes. It is decided when a quorum agrees. False: the board is closed
// to such operations, and nobody was asked.
func (op *Operation) AskAll() bool { return op.AskOf(op.board().Nodes, op.board().Quorum) }

// AskOf puts the operation before the nodes. It is decided when need of them agree.
func (op *Operation) AskOf(nodes []*node.Node, need int) bool {
	if !op.enter(nodes, need) {
		return false
	}
	op.submit(nodes)
	return true
}

// submit puts the requests of an operation in the nodes' queues. Nodes that refuse at once may decide it
// before the last request has entered. What it has set is cleared only behind its last request, or the
// clean-up would be before that in the key's queue.
func (op *Operation) submit(nodes []*node.Node) {
	for i := range nodes {
		if op.put(&op.votes[i].Request) {
			op.queued++
		}
	}
	if op.Op.Does == lease.Sets {
		op.Hold.mu.Lock()
		op.submitted = true
		op.unlock()
	}
}

// Queued reports whether a quorum of the requests waits behind others of their keys. Only the goroutine that
// asked may call it.
func (op *Operation) Queued() bool { return len(op.votes)-op.queued < op.Need }

// enter makes the requests, and lets the operation to the state of its key, unless the board
// takes in no such operations any more.
func (op *Operation) enter(nodes []*node.Node, need int) bool {
	h, b := op.Hold, op.board()
	if op.state == nil { // or op has entered as a flight
		op.state = b.Keys.enter(h.lane, len(b.Nodes), op.Op.Does == lease.Sets)
		op.Done = make(chan struct{})
	}
	if op.state == nil {
		return false
	}
	op.Question, op.Keys, op.Asked = op, &op.state.queues, b.Clock.Now()
	if lanes := op.lanes(); len(lanes) > 0 {
		op.More, op.others = b.Keys.enterOthers(lanes, len(b.Nodes), len(nodes))
	}
	lease.Must(op.Beside == nil || op.Op.Besides != lease.Looks, "a command that is to take care of a lock's two tokens knows of both")
	op.Begin(op.aim(), op.Op.Does, len(nodes), need, op.Op.AnyAnswer())
	if op.Op.Levels { // its number is that of the first round, or greater
		op.ProposeAs(&h.Acquire.Round)
	} else {
		op.Round.Propose(op.Fence.Number, op.Asked, op.Op.Reads)
	}
	if op.votes == nil {
		op.votes = make([]vote, len(nodes))
	}
	if op.weighs() {
		b.Keys.undecided.Add(1)
	}
	op.Due = op.Asked.Add(b.NodeTimeout(op.Lease))
	if op.Op.Votes {
		op.Due = op.Due.Add(b.Durability.Wait())
	}
	for i, n := range nodes {
		v := &op.votes[i]
		*v = vote{}
		v.Init(&op.Ask, &op.Terms, n, i)
	}
	if op.Op.Does != lease.Looks {
		h.mu.Lock()
		op.list(nodes)
		earlier := op.before != nil
		h.mu.Unlock()
		if earlier {
			h.Recall()
		}
	}
	return true
}

// lanes are the queues that the operation waits in besides the hold's lane. Permits and readers have a lane
// a try; tries that leave a ticket are ordered by a lane of the Locker's tickets, too, and so is its leaving.
func (op *Operation) lanes() (lanes []any) {
	switch {
	case op.Many != nil:
		lanes = op.Many.Others()
	case op.Beside != nil:
		lanes = []any{op.Beside.lane}
	}
	if h := op.Hold; h.Ticket != nil && op.Op.Tries && op.Line.Stays {
		lanes = append(slices.Clip(lanes), op.Line.Lane(h.Key))
	}
	return lanes
}

// aim is the operation's purpose for its hold.
func (op *Operation) aim() lease.Aim {
	switch op.Op.Verb {
	case protocol.Acquiring, protocol.Inheriting, protocol.Upgrading:
		if op == &op.Hold.Acquire {
			return lease.ToHold
		}
		return lease.ToHoldAgain
	case protocol.Raising, protocol.Retaking:
		return lease.ToHoldAgain
	case protocol.Extending, protocol.Downgrading:
		return lease.ToExtend
	}
	return lease.Nothing
}

// weighs reports whether the operation decides about a key: it is no mere question, and asks more than a
// minority.
func (op *Operation) weighs() bool {
	return (op.Op.Does != lease.Looks) && len(op.votes) > len(op.board().Nodes)-op.board().Quorum
}
