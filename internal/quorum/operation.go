package quorum

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// An Operation is one question to the nodes about one hold. It is put in the queues of all
// nodes at once and decided by the deciding vote: success when a quorum agrees, failure as soon as
// that is out of reach. The remaining answers come in the background and are still noted.
type Operation struct {
	protocol.Ask
	node.Terms
	Hold  *Hold
	Lease time.Duration      // what it asks for, or the longest one of the hold
	Done  chan struct{}      // closed when decided
	Full  chan struct{}      // closed when all nodes have answered, or of a failed acquire the near: see Late; nil: nobody waits
	Round int32              // of a renewal, since the last that was carried
	Seen  string             // of an acquire: the token that was in the way of the call's last tries; "": none
	Since clockdrift.Instant // the first of them

	// Handoff is the release that a hand-over is as well.
	Handoff *Operation
	// Beside is that of the lock's other token, which a conversion or its clean-up is about as
	// well; nil: it is about one.
	Beside *Hold

	queued int // requests that had to wait behind others of their keys when they were put
	state  *keyState
	others []*keyState // of its further keys
	need   int

	// Guarded by Hold.mu.
	Outcome   Outcome
	Interrupt error              // why it was dropped
	Start     clockdrift.Instant // of the votes that agreed, the earliest that left
	Over      clockdrift.Instant // when the deciding vote was counted
	Early     bool               // it has failed without nodes that have not answered

	votes      []vote
	agreed     int
	open       int          // requests without a final answer
	spared     int          // releases that agree unasked; they decide only if no other answer is to come
	due        effects      // when Hold.mu is free
	submitted  bool         // to all nodes
	behind     []*node.Node // of a release: where another token of the lock was, or might be, when it was made
	superseded bool         // by a later operation of its hold
	dismissed  bool         // nobody waits for the answers that have not come yet
	filled     bool         // it was
	unanswered bool         // a release was sent and got no answer
	holders    []holderView
	early      *time.Timer // to that; nil: it was not contested
	setAt      int         // nodes that have set the key, whether or not that is a vote
	outbid     int         // nodes that have granted the key and accepted a greater fence before
	counter    int64       // the greatest fence that a node was asked for

	// whole, if there is one, is called once, when all nodes have answered.
	whole func(op *Operation)

	before *Operation // of its hold, asked before: see [Hold.Recall]
}

// A vote is a request, and what came of it. All but the request is guarded by Hold.mu.
type vote struct {
	node.Request
	answer   protocol.Answer
	last     bool               // it was the operation's last to be answered; its sender's own
	server   uint32             // which one has answered, if it asks for a vote; 0: not known
	start    clockdrift.Instant // the clock before its first byte left; 0: nothing has
	seen     uint32             // the news of the token's trace then
	besides  uint32             // the same of Beside's token
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

// An Outcome of an operation.
type Outcome uint8

// The outcomes.
const (
	Undecided Outcome = iota
	Carried           // by a quorum
	Failed            // a quorum is out of reach
	Outbid            // a quorum has granted the key, but not the fence
	Split             // a quorum is out of reach, and no other token is known to have one
	Dropped           // by the caller, before it was decided
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
	if op.Op.Sets {
		op.Hold.mu.Lock()
		op.submitted = true
		op.unlock()
	}
}

// Queued reports whether no quorum can answer before others of its keys have been answered. Only the
// goroutine that has asked may ask it.
func (op *Operation) Queued() bool { return len(op.votes)-op.queued < op.need }

// enter makes the requests, and lets the operation to the state of its key, unless the board
// takes in no such operations any more.
func (op *Operation) enter(nodes []*node.Node, need int) bool {
	h, b := op.Hold, op.board()
	if op.state == nil { // or it has entered as a flight
		op.state = b.Keys.enter(h.lane, len(b.Nodes), op.Op.Sets)
		op.Done = make(chan struct{})
	}
	if op.state == nil {
		return false
	}
	op.Question, op.Keys, op.Asked = op, &op.state.queues, b.Clock.Now()
	if lanes := op.lanes(); len(lanes) > 0 {
		op.More, op.others = b.Keys.enterOthers(lanes, len(b.Nodes), len(nodes))
	}
	op.need, op.open = need, len(nodes)
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
	if op.Op.Sets || op.Op.Frees {
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

// weighs reports whether what becomes of a key is up to the operation: it is no question, and asks
// more nodes than a minority.
func (op *Operation) weighs() bool {
	return (op.Op.Sets || op.Op.Frees) && len(op.votes) > len(op.board().Nodes)-op.board().Quorum
}
