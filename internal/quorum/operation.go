package quorum

import (
	"cmp"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// An Operation is one question to the nodes about one attempt. It is put in the queues of all
// nodes at once and decided by the deciding vote: success when a quorum agrees, failure as soon as
// that is out of reach. The remaining answers come in the background and are still noted.
type Operation struct {
	protocol.Ask
	node.Terms
	Attempt *Attempt
	Owner   any                // whose it is: see Decided
	Lease   time.Duration      // what it asks for, or the attempt's
	Done    chan struct{}      // closed when decided
	Full    chan struct{}      // closed when all nodes have answered, or of a failed acquire the near: see Late; nil: nobody waits
	Round   int32              // of a renewal, since the last that was carried
	Seen    string             // of an acquire: the token that was in the way of the call's last tries; "": none
	Since   clockdrift.Instant // the first of them

	// Decided, if there is one, is called once, under Attempt.Mu, with the deciding vote.
	Decided func(op *Operation, now clockdrift.Instant)
	// Complete, if there is one, is called once, when all nodes have answered.
	Complete func(op *Operation)
	// Handoff is the release that a hand-over stands for.
	Handoff *Operation
	// Beside is the attempt of the hold's other token, which a conversion or its clean-up is about as
	// well; nil: it is about one.
	Beside *Attempt

	state  *keyState
	others []*keyState // of its further keys
	need   int

	// Guarded by Attempt.Mu.
	Outcome Outcome
	Start   clockdrift.Instant // of the votes that agreed, the earliest that left
	Over    clockdrift.Instant // when the deciding vote was counted
	Clears  bool               // the attempt is to be cleared when Attempt.Mu is free
	Early   bool               // it has failed without nodes that have not answered

	votes      []vote
	agreed     int
	open       int          // requests without a final answer
	spared     int          // releases that agree unasked; they decide only if no other answer is to come
	decided    bool         // Done is to be closed when Attempt.Mu is free
	recalls    bool         // what has not left is to be recalled when Attempt.Mu is free
	submitted  bool         // to all nodes
	behind     []*node.Node // of a release: where another token of the hold was, or might be, when it was made
	superseded bool         // by a later operation of its attempt
	dismissed  bool         // nobody waits for the answers that have not come yet
	complete   bool         // all nodes have answered, and that is to be told
	full       bool         // Full is to be closed when Attempt.Mu is free
	filled     bool         // it was
	unanswered bool         // a release was sent and got no answer
	holders    []holderView
	early      *time.Timer // to that; nil: it was not contested
	placed     int         // nodes that have set the key, whether or not that is a vote
	outbid     int         // nodes that have granted the key and accepted a greater fence before
	counter    int64       // the greatest fence that a node was asked for

	before *Operation // of its attempt, asked before: see [Attempt.Recall]
}

// A vote is a request, and what came of it. All but the request is guarded by Attempt.Mu.
type vote struct {
	node.Request
	answer   protocol.Answer
	last     bool               // it was the operation's last to be answered; its sender's own
	server   uint32             // which one has answered, if it asks for a vote; 0: not known
	start    clockdrift.Instant // the clock before its first byte left; 0: nothing has
	answered clockdrift.Instant
	err      error
}

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

var errNeedless = errors.New("not asked any more: the others had decided")

func (op *Operation) board() *Board { return op.Attempt.Board }

// Prepare makes op the question what of the attempt, for a lease of ttl. Its commands want an
// Encode.
func (op *Operation) Prepare(a *Attempt, what *protocol.Op, ttl time.Duration) {
	op.Attempt, op.Lease = a, ttl
	op.Op, op.Key, op.Token, op.Fence, op.Many, op.Stand, op.Turn = what, a.key, a.token, a.fence, a.Many, a.Stand, a.Turn
	op.TTL, op.Sides = a.Board.Milliseconds(ttl), a.sides
	op.Exact = what.Prolongs
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
		op.put(&op.votes[i].Request)
	}
	if op.Op.Sets {
		op.Attempt.Mu.Lock()
		op.submitted = true
		op.unlock()
	}
}

// enter makes the requests, and lets the operation to the state of its key, unless the board
// takes in no such operations any more.
func (op *Operation) enter(nodes []*node.Node, need int) bool {
	a, b := op.Attempt, op.board()
	if op.state == nil { // or it has boarded
		op.state = b.Keys.enter(a.lane, len(b.Nodes), op.Op.Sets)
		op.Done = make(chan struct{})
	}
	if op.state == nil {
		return false
	}
	op.Question, op.Keys, op.Asked = op, &op.state.queues, b.Clock.Now()
	switch {
	case op.Many != nil:
		op.More, op.others = b.Keys.enterOthers(op.Many.Others(), len(b.Nodes), len(nodes))
	case op.Beside != nil:
		op.More, op.others = b.Keys.enterOthers([]any{op.Beside.lane}, len(b.Nodes), len(nodes))
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
		a.Mu.Lock()
		op.list(nodes)
		earlier := op.before != nil
		a.Mu.Unlock()
		if earlier {
			a.Recall()
		}
	}
	return true
}

// weighs reports whether what becomes of a key is up to the operation: it is no question, and asks more
// nodes than a minority.
func (op *Operation) weighs() bool {
	return (op.Op.Sets || op.Op.Frees) && len(op.votes) > len(op.board().Nodes)-op.board().Quorum
}

// vote returns that of a request.
func (op *Operation) vote(r *node.Request) *vote { return &op.votes[r.Index] }

// Leaves notes that r is about to be sent, unless there is no need any more.
func (op *Operation) Leaves(r *node.Request, now clockdrift.Instant) bool {
	a, v := op.Attempt, op.vote(r)
	a.Mu.Lock()
	defer a.Mu.Unlock()
	s := &a.nodes[r.Node.Index]
	switch {
	case op.Op.Frees && (s.clean() || !a.deletable(now)):
		return false
	case op.needless() && (v.start == 0 || op.Outcome != Carried): // the second sending of a grant teaches the node a script
		return false
	case op.Op.Sets:
		s.onLeave(now)
	}
	if v.start == 0 {
		v.start = now
	}
	return true
}

// Out is for how long r has been under way.
func (op *Operation) Out(r *node.Request, now clockdrift.Instant) time.Duration {
	op.Attempt.Mu.Lock()
	defer op.Attempt.Mu.Unlock()
	if v := op.vote(r); v.start != 0 {
		return now.Sub(v.start)
	}
	return 0
}

// Answered notes what came of a sending of r: see [node.Question].
func (op *Operation) Answered(r *node.Request, err, doubt error, now clockdrift.Instant, counts bool) {
	a, v := op.Attempt, op.vote(r)
	answer := protocol.Failed
	if r.Reply != nil {
		answer, err = r.Read()
	}
	set := answer == protocol.Granted
	if set && op.Op.Votes {
		doubt = cmp.Or(r.Doubts(), r.Node.Gates().Unwritten(&r.Part), doubt)
	}
	switch {
	case !set:
	case doubt != nil && op.Op.Votes:
		answer, err = protocol.Failed, doubt
	default:
		answer, err = r.ReadFence()
	}
	unsent := errors.Is(err, driver.ErrNotSent)
	if op.Beside != nil { // first, or there would be a moment at which no token of the hold is known to be there
		op.beside(r.Node, set, r.Reply == nil && !unsent, now)
	}
	a.Mu.Lock()
	if set && op.Op.Votes && r.Node.Gates().Strict() && now > v.start.Add(op.Patience()) {
		// The look behind it speaks of this moment, and with fences the number that was accepted
		// is of long ago. The time of all its sendings counts.
		answer, err = protocol.Failed, &fault.SilenceError{After: op.Patience()}
	}
	if answer == protocol.Taken && a.hasOther(r) {
		answer, err = protocol.Failed, errOther
	}
	s := &a.nodes[r.Node.Index]
	if r.Reply != nil && !r.Refused() {
		s.onReply(v.start, now)
	}
	switch {
	case op.Op.Sets && (r.Reply != nil || unsent):
		s.onKnown(set, now)
	case op.Op.Sets:
		s.onLost(now)
	case op.Op.Frees && answer != protocol.Failed:
		s.onRelease(answer == protocol.Granted)
	case op.Op.Frees && r.Reply == nil && !unsent:
		op.unanswered = true
	}
	switch {
	case r.Reply == nil:
	case op.Op == protocol.Counters:
		op.counter = max(op.counter, r.Counter())
	case answer == protocol.Taken && !set:
		op.see(r, doubt != nil, now)
	}
	if set && counts {
		op.placed++
	}
	if counts {
		op.tally(v, answer, err, now)
	}
	raised := op.Fence.Number != 0 && !op.Op.Prolongs && r.Reply != nil
	op.unlock()
	if raised {
		op.board().trims[r.Node.Index].after(&op.Ask)
	}
	if counts && op.Handoff != nil {
		op.handOn(r, set || answer != protocol.Failed)
	}
}

// Unanswered notes the final answer of a request that got no reply. One that was not
// needed is as good as a release where the token is not.
func (op *Operation) Unanswered(r *node.Request, err error, now clockdrift.Instant) {
	answer := protocol.Failed
	switch {
	case err == nil && op.Op.Frees:
		answer = protocol.Absent
	case err == nil:
		err = errNeedless
	}
	op.Attempt.Mu.Lock()
	switch {
	case answer == protocol.Absent:
		op.spared++
	case err == errNeedless && op.Outcome == Dropped: //nolint:errorlint // the sentinel itself
		answer, err = protocol.Pending, nil // it says nothing of the node: the caller's time was up before
	}
	op.tally(op.vote(r), answer, err, now)
	op.unlock()
	if op.Handoff != nil {
		op.handOn(r, false)
	}
}

// Passed leaves the key behind the last request.
func (op *Operation) Passed(r *node.Request) {
	if op.vote(r).last {
		op.board().Keys.Leave(op.state, op.others...)
	}
}

// unlock gives back Attempt.Mu, and does what was put off until then. A caller who tries again
// must find the clean-up in the key's queue before him, or his own previous try would refuse him:
// so he is told of the decision last.
func (op *Operation) unlock() {
	decided, clears, recalls := op.decided, op.Clears && op.submitted, op.recalls && op.submitted
	op.decided, op.Clears, op.recalls = false, op.Clears && !op.submitted, op.recalls && !op.submitted
	complete, full := op.complete, op.full
	op.complete, op.full = false, false
	op.Attempt.Mu.Unlock()
	if recalls { // or the clean-up would find requests to clean up behind
		op.Attempt.Recall()
	}
	if clears {
		op.Attempt.Clear()
		op.board().Keys.Await(-1)
	}
	if decided {
		close(op.Done)
		if op.weighs() {
			op.board().Keys.decided()
		}
	}
	if full {
		close(op.Full)
	}
	if complete && op.Complete != nil {
		op.Complete(op)
	}
}
