package quorum

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// An Operation is one question to the nodes about one hold. It is put in the queues of all
// nodes at once and decided by the deciding vote: success when a quorum agrees, failure as soon as
// that is out of reach. The remaining answers come in the background and are still noted.
type Operation struct {
	protocol.Ask
	node.Terms
	lease.Round // what the nodes say; guarded by Hold.mu, as all below that
	Hold        *Hold
	Lease       time.Duration      // what it asks for, or the longest one of the hold
	Done        chan struct{}      // closed when decided
	Full        chan struct{}      // closed when all nodes have answered, or of a failed acquire the near: see Late; nil: nobody waits
	Attempt     int32              // of a renewal, since the last that was carried
	Seen        string             // of an acquire: the token that was in the way of the call's last tries; "": none
	Since       clockdrift.Instant // the first of them

	// Handoff is the release that a hand-over is as well.
	Handoff *Operation
	// Beside is that of the lock's other token, which a conversion or its clean-up is about as
	// well; nil: it is about one.
	Beside *Hold

	queued int // requests that had to wait behind others of their keys when they were put
	state  *keyState
	others []*keyState // of its further keys

	// Guarded by Hold.mu.
	Interrupt error              // why it was dropped
	Over      clockdrift.Instant // when the deciding vote was counted
	Early     bool               // it has failed without nodes that have not answered

	votes      []vote
	due        effects      // when Hold.mu is free
	submitted  bool         // to all nodes
	behind     []*node.Node // of a release: where another token of the lock was, or might be, when it was made
	dismissed  bool         // nobody waits for the answers that have not come yet
	filled     bool         // it was
	unanswered bool         // a release was sent and got no answer
	holders    []holderView
	early      *time.Timer // to that; nil: it was not contested
	setAt      int         // nodes that have set the key, whether or not that is a vote

	// whole, if there is one, is called once, when all nodes have answered.
	whole func(op *Operation)

	before *Operation // of its hold, asked before: see [Hold.Recall]
}

// A vote is a request, and what came of it. All but the request is guarded by Hold.mu.
type vote struct {
	node.Request
	lease.Vote
	last     bool   // it was the operation's last to be answered; its sender's own
	server   uint32 // which one has answered, if it asks for a vote; 0: not known
	answered clockdrift.Instant
	err      error
}

// Effects are what an operation's answers want done without Hold.mu, in this order: see
// [Operation.unlock].
type effects uint8

const (
	recalls   effects = 1 << iota // take back what has not left: the clean-up would go behind it
	clears                        // clear the hold: a new try must find that before it in the key's queue
	decides                       // close Done
	fills                         // close Full
	completes                     // call whole
)

var errNeedless = errors.New("not asked any more: its answer could not change the outcome")

func (op *Operation) board() *Board { return op.Hold.Board }

// Prepare makes op the question what of the hold, for a lease of ttl. Its commands want an
// Encode.
func (op *Operation) Prepare(h *Hold, what *protocol.Op, ttl time.Duration) {
	op.Hold, op.Lease = h, ttl
	op.Op, op.Key, op.Token, op.Fence, op.Many, op.Line = what, h.key, h.token, h.set, h.Many, h.Line
	op.TTL, op.Sides = h.Board.Milliseconds(ttl), h.sides
}

// About makes a question to nodes that concerns a key and no token. It waits in the key's queue. Its
// commands are to be given.
func (b *Board) About(key string, what *protocol.Op) *Operation {
	h := new(Hold)
	h.Init(b, nil, key, "", b.TTL)
	op := &h.Acquire
	op.Prepare(h, what, b.TTL)
	return op
}

// Reserve gives op and other memory for their votes.
func (op *Operation) Reserve(other *Operation) {
	nodes := len(op.board().Nodes)
	votes := make([]vote, 2*nodes)
	op.votes, other.votes = votes[:nodes:nodes], votes[nodes:]
}

// AskAll puts the operation before all nodes. It is decided when a quorum agrees. It reports
// false, and asks nobody, if the board takes in no such operations any more.
func (op *Operation) AskAll() bool { return op.AskOf(op.board().Nodes, op.board().Quorum) }

// AskOf puts the operation before the nodes. It is decided when need of them agree.
func (op *Operation) AskOf(nodes []*node.Node, need int) bool {
	if !op.enter(nodes, need) {
		return false
	}
	op.submit(nodes)
	return true
}

// submit puts the requests of an operation that has entered in the nodes' queues. It may be
// decided before it is in all of them, by nodes that refuse at once. What it has set is cleared
// only behind its last request, or the clean-up would be before that in the key's queue.
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

// Queued reports whether no quorum can answer before others of its keys have been answered. Only the
// goroutine that has asked may ask it.
func (op *Operation) Queued() bool { return len(op.votes)-op.queued < op.Need }

// enter makes the requests, and lets the operation to the state of its key, unless the board
// takes in no such operations any more.
func (op *Operation) enter(nodes []*node.Node, need int) bool {
	h, b := op.Hold, op.board()
	if op.state == nil { // or it has entered as a flight
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

// lanes are the queues that the operation waits in besides the hold's lane. Where the tries of
// one wait have lanes of their own, as those for permits and those of readers, the ones that leave
// its ticket are in order by that, and it leaves the line behind them.
func (op *Operation) lanes() (lanes []any) {
	switch {
	case op.Many != nil:
		lanes = op.Many.Others()
	case op.Beside != nil:
		lanes = []any{op.Beside.lane}
	}
	if h := op.Hold; h.Ticket != nil && op.Op.Tries && op.Line.Stays && (op.Line.Pool != nil || h.Kind.Joins) {
		lanes = append(slices.Clip(lanes), op.Line.Lane(h.Key))
	}
	return lanes
}

// aim is what the operation is to bring about for its hold.
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

// weighs reports whether what becomes of a key is up to the operation: it is no question, and asks
// more nodes than a minority.
func (op *Operation) weighs() bool {
	return (op.Op.Does != lease.Looks) && len(op.votes) > len(op.board().Nodes)-op.board().Quorum
}
