package quorum

import (
	"cmp"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// vote returns the vote of a request.
func (op *Operation) vote(r *node.Request) *vote { return &op.votes[r.Index] }

// Leaves is called before the first byte of r is written, and notes what r may set. False: nobody needs the
// answer, and the node finishes r unsent.
func (op *Operation) Leaves(r *node.Request, now clockdrift.Instant) bool {
	v := op.vote(r)
	if op.Handoff != nil {
		op.Handoff.sees(r.Index)
	}
	if op.Beside == nil {
		return op.leaves(v, now)
	}
	if !op.leavesBeside(v, now) {
		return false
	}
	left := op.leaves(v, now)
	if !left {
		op.beside(v, false, lease.Unsent, now)
	}
	return left
}

// leaves is Leaves for the operation's own token.
func (op *Operation) leaves(v *vote, now clockdrift.Instant) bool {
	h, r := op.Hold, &v.Request
	h.mu.Lock()
	defer h.mu.Unlock()
	if op.Op == protocol.Leave && v.Sent == 0 && !h.goes(r.Node.Index) {
		return false
	}
	left := h.life.Leaves(&op.Round, &v.Vote, &h.nodes[r.Node.Index].Trace, op.heard(), !op.Op.Lineless(), h.spent(now), now)
	if left && op.Does == lease.Sets && h.Ticket != nil && op.Op.Tries && op.Line.Stays {
		h.Ticket.sent(r.Node.Index)
	}
	return left
}

// sees notes another operation's news of the token's trace at a node, whose command is about to leave.
func (op *Operation) sees(index int) {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	v := &op.votes[index]
	v.Sees(&op.Hold.nodes[v.Node.Index].Trace)
}

// Out is for how long r has been under way.
func (op *Operation) Out(r *node.Request, now clockdrift.Instant) time.Duration {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	if v := op.vote(r); v.Sent != 0 {
		return now.Sub(v.Sent)
	}
	return 0
}

// Answered notes the outcome of a sending of r: see [node.Question].
func (op *Operation) Answered(r *node.Request, err, doubt error, now clockdrift.Instant, counts bool) {
	h, v := op.Hold, op.vote(r)
	answer := protocol.Failed
	if r.Reply != nil {
		answer, err = r.Read()
	}
	said := answer
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
	fate := fateOf(r, err)
	if op.Beside != nil { // first, or for a moment no token of the lock would be known to be there
		op.beside(v, set, fate, now)
	}
	h.mu.Lock()
	if h.Ticket != nil && op.Op.Tries && op.Op.Does == lease.Sets && op.Line.Stays {
		if stands, ok := r.Stands(); ok && (stands || !h.putBack) {
			h.Ticket.answered(r.Node.Index, stands)
		}
	}
	if set && op.Op.Votes && r.Node.Gates().Strict() && now > v.Sent.Add(op.Patience()) {
		// The look behind the answer tells of this moment, and with fences the accepted number is old. The
		// time of all sendings counts.
		answer, err = protocol.Failed, &fault.SilenceError{After: op.Patience()}
	}
	if answer == protocol.Taken && h.hasOther(r) {
		answer, err = protocol.Failed, errOther
	}
	h.life.Answered(&op.Round, &v.Vote, &h.nodes[r.Node.Index].Trace, fate, said, now)
	op.unanswered = op.unanswered || op.Does == lease.Frees && fate == lease.Silent
	if r.Reply != nil && answer == protocol.Taken && !set && op.Op.Tells() {
		op.see(r, doubt != nil, now)
	}
	if set && counts {
		op.setAt++
	}
	if counts {
		v.told = r.Reply != nil
		op.tally(v, answer, err, now)
	}
	raised := op.Fence.Number != 0 && !op.Op.Prolongs && r.Reply != nil
	op.unlock()
	if raised {
		r.Node.Trim(&op.Ask)
	}
	if op.Handoff != nil && fate == lease.Silent {
		op.Handoff.unheard()
	}
	if counts && op.Handoff != nil {
		op.handOn(r, set || answer != protocol.Failed)
	}
}

// fateOf is the outcome of a sending of r.
func fateOf(r *node.Request, err error) lease.Fate {
	switch {
	case errors.Is(err, driver.ErrNotSent):
		return lease.Unsent
	case r.Reply == nil:
		return lease.Silent
	case r.Refused():
		return lease.Unrun
	}
	return lease.Ran
}

// Unanswered notes the final answer of a request without a reply. A release that was not needed counts as
// one that found no token.
func (op *Operation) Unanswered(r *node.Request, err error, now clockdrift.Instant) {
	answer := protocol.Failed
	switch {
	case err == nil && op.Op.Does == lease.Frees:
		answer = protocol.Absent
	case err == nil:
		err = errNeedless
	}
	op.Hold.mu.Lock()
	switch {
	case answer == protocol.Absent:
		op.Spare()
	case err == errNeedless && op.Verdict == lease.Dropped: //nolint:errorlint // the sentinel itself
		answer, err = protocol.Pending, nil // the caller's time was up before: no news of the node
	}
	v := op.vote(r)
	op.tally(v, answer, err, now)
	sent := v.Sent != 0
	op.unlock()
	if op.Handoff != nil {
		if sent {
			op.Handoff.unheard()
		}
		op.handOn(r, false)
	}
}

// Passed leaves the key behind the last request.
func (op *Operation) Passed(r *node.Request) {
	if op.vote(r).last {
		op.board().Keys.Leave(op.state, op.others...)
	}
}

// unlock gives back Hold.mu, and carries out the effects. What undoes the operation waits until all requests
// are in the nodes' queues.
func (op *Operation) unlock() {
	now := op.due
	if !op.submitted {
		now &^= recalls | clears
	}
	op.due &^= now
	op.Hold.mu.Unlock()
	if now&recalls != 0 {
		op.Hold.Recall()
	}
	if now&clears != 0 {
		op.Hold.Clear()
		op.board().Keys.Await(-1)
	}
	if now&decides != 0 {
		close(op.Done)
		if op.weighs() {
			op.board().Keys.decided()
		}
	}
	if now&fills != 0 {
		close(op.Full)
	}
	if now&completes != 0 && op.whole != nil {
		op.whole(op)
	}
}

// A Tally is the outcome of an operation so far.
type Tally struct {
	Need, Agreed int
	Reason       error // why too few nodes have agreed, if they have
	Votes        []Vote
}

// A Vote is the answer of a node.
type Vote struct {
	Node    *node.Node
	Answer  protocol.Answer
	Latency time.Duration
	Err     error
	Start   clockdrift.Instant
	Reply   *protocol.Part // nil: the answer is none of the node's
	Refusal protocol.Refusal
}

// Tally returns the outcome of the operation so far.
func (op *Operation) Tally() Tally {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	return op.count()
}

// count is Tally. Hold.mu is held.
func (op *Operation) count() Tally {
	t := Tally{Need: op.Need, Agreed: op.Agreed, Reason: op.reason(), Votes: make([]Vote, len(op.votes))}
	for i := range op.votes {
		v := &op.votes[i]
		t.Votes[i] = Vote{Node: v.Node, Answer: v.Answer, Err: v.err, Start: v.Sent}
		if v.Answer != protocol.Pending {
			t.Votes[i].Latency = v.answered.Sub(op.Asked)
		}
		if v.told {
			t.Votes[i].Reply = &v.Part
		}
		if op.holders != nil {
			t.Votes[i].Refusal = op.holders[i].Refusal
		}
	}
	return t
}
