package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// tally counts the final answer of a vote; the deciding vote decides the operation. Attempt.Mu is
// held.
func (op *Operation) tally(v *vote, answer protocol.Answer, err error, now clockdrift.Instant) {
	a := op.Attempt
	if op.Op.Votes && op.Op.Agrees(answer) && op.twice(v) {
		answer, err = protocol.Failed, errTwice
	}
	v.answer, v.err, v.answered = answer, err, now
	if op.Op.Sets {
		a.nodes[v.Node.Index].asked--
	}
	op.open--
	if op.Op.Agrees(answer) {
		op.agreed++
		if op.agreed == 1 || v.start < op.Start {
			op.Start = v.start // the earliest expiry counts
		}
	}
	if answer == protocol.Outbid {
		op.outbid++
	}
	if op.Outcome == Undecided {
		switch {
		case op.agreed >= op.need && (op.agreed-op.spared >= op.need || op.open == 0) && op.stands():
			op.decide(op.carried(), now)
		case op.agreed+op.open >= op.need: // a quorum is in reach
		case op.agreed+op.outbid >= op.need:
			op.decide(Outbid, now)
		case op.agreed+op.outbid+op.open < op.need:
			op.decide(Failed, now)
		}
	}
	switch {
	case op.Outcome != Undecided:
	case op.contested():
		op.hurry(now)
	case op.outbid > 0 && op.agreed+op.outbid >= op.need && op.far():
		op.decide(Outbid, now) // a greater number is there before the answer of a node that is far away
	}
	if op.Op.Frees {
		a.onReleased(v, now)
	}
	v.last = op.open == 0
	op.complete = v.last
	if op.Full != nil && !op.filled && (v.last || op.Op.Sets && (op.Outcome == Failed || op.Outcome == Split) && op.far()) {
		op.full, op.filled = true, true
	}
	if v.last && (op.Op.Sets || op.Op.Frees) {
		op.unlist()
	}
}

// carried says what a quorum of votes has come to: where they are for the greatest counter that
// comes with them, so many must have that, and it must not be so old that a greater one may be
// forgotten. Attempt.Mu is held.
func (op *Operation) carried() Outcome {
	if !op.Op.Reads || op.Fence.Number == 0 {
		return Carried
	}
	count := 0
	for i := range op.votes {
		v := &op.votes[i]
		if !op.Op.Agrees(v.answer) {
			continue
		}
		if n := v.Number(); n > op.counter {
			op.counter, count = n, 1
		} else if n == op.counter {
			count++
		}
	}
	// An old counter may have come back with an old file, at a node that has forgotten a greater one.
	proposed, age := op.Fence.Number, op.board().ReadAge
	if age > 0 && !op.Op.Levels && op.counter < proposed-age.Microseconds() {
		op.counter = proposed
		return Outbid
	}
	if count < op.need {
		return Outbid
	}
	return Carried
}

// Number is the fence that the votes are for. Attempt.Mu is held.
func (op *Operation) Number() int64 {
	if op.Op.Reads {
		return op.counter
	}
	return op.Fence.Number
}

// decide ends the operation. Attempt.Mu is held.
func (op *Operation) decide(how Outcome, now clockdrift.Instant) {
	if op.early != nil {
		op.early.Stop()
	}
	op.Outcome, op.Over = how, now
	if op.Decided != nil {
		op.Decided(op, now)
	}
	if op.Clears { // for Close, the last answer may come before the clean-up is asked for
		op.board().Keys.Await(+1)
	}
	op.decided = true
	op.recalls = op.open > 0 && op.needless()
}

// Await waits until the operation is decided, and drops it if ctx ends first.
func (op *Operation) Await(ctx context.Context) {
	select {
	case <-op.Done:
	case <-ctx.Done():
		op.Drop()
	}
}

// HasCarried reports whether a quorum has agreed.
func (op *Operation) HasCarried() bool {
	op.Attempt.Mu.Lock()
	defer op.Attempt.Mu.Unlock()
	return op.Outcome == Carried
}

// Drop ends the operation for a caller who does not wait any longer, unless it is decided. What
// was not sent is not sent any more.
func (op *Operation) Drop() {
	now := op.board().Clock.Fresh()
	op.Attempt.Mu.Lock()
	if op.Outcome == Undecided {
		op.decide(Dropped, now)
	}
	op.unlock()
}

// Unsent reports whether some of the operation's requests have not left. Attempt.Mu is held.
func (op *Operation) Unsent() bool {
	for i := range op.votes {
		if op.votes[i].Unsent() {
			return true
		}
	}
	return false
}

// Deadline is when the lease ends that the votes have granted. Attempt.Mu is held.
func (op *Operation) Deadline() clockdrift.Instant {
	return clockdrift.Deadline(op.Start, op.Lease, op.board().Drift)
}

// errTwice is the fate of a vote of a server that has voted as another node before.
var errTwice = errors.New("this server has voted already, as another node: names have changed places")

// twice reports whether the server that v's node is now has agreed to the operation as another
// node: between two probes of them, nodes may change places. Attempt.Mu is held.
func (op *Operation) twice(v *vote) bool {
	v.server = v.Node.Server.Load()
	for i := range op.votes {
		other := &op.votes[i]
		if other != v && v.server != 0 && other.server == v.server && op.Op.Agrees(other.answer) {
			return true
		}
	}
	return false
}

// stands takes back the votes that others of the operation have spoiled, and reports whether there
// are still enough. Attempt.Mu is held.
func (op *Operation) stands() bool {
	guard := op.board().Restarts
	if guard == nil || !op.Op.Votes {
		return true
	}
	for i := range op.votes {
		v := &op.votes[i]
		if !op.judged(v) {
			continue
		}
		why := guard.Spoils(v.Evidence, nil)
		for j := range op.votes[:i] {
			if other := &op.votes[j]; why == nil && op.judged(other) {
				why = guard.Spoils(v.Evidence, other.Evidence)
			}
		}
		if why != nil {
			v.answer, v.err = protocol.Failed, why
			op.agreed--
		}
	}
	return op.agreed >= op.need
}

// judged reports whether v agrees and a gate has judged it: only then nobody writes to its
// evidence any more. Attempt.Mu is held.
func (op *Operation) judged(v *vote) bool { return op.Op.Agrees(v.answer) && v.Evidence != nil }

// FailureReason is why too few nodes agreed: too many nodes cannot say, or somebody else has the
// key. Of an acquire it is also said if several may ask for the key and nobody have it: the nodes
// name no token that has a quorum of them. Attempt.Mu is held.
func (op *Operation) FailureReason() error {
	silent := op.Answers(protocol.Failed)
	switch {
	case op.Outcome != Dropped && op.refused(fault.ErrPermits) > len(op.votes)-op.need:
		return fault.ErrPermits
	case op.Outcome == Dropped, silent > len(op.votes)-op.need:
		return fault.ErrNoQuorum
	case op.Op.Tells():
		if _, held := op.has(op.need); !held {
			return fault.ErrContended
		}
	}
	return fault.ErrTaken
}

// Beaten reports whether something else has the key at so many nodes that the others are no quorum.
// Attempt.Mu is held.
func (op *Operation) Beaten() bool { return op.Answers(protocol.Taken) > len(op.votes)-op.need }

// Vacant reports whether a quorum has the token or nothing, and whether no node has said that something
// else is there.
func (op *Operation) Vacant() (quorum, alone bool) {
	op.Attempt.Mu.Lock()
	defer op.Attempt.Mu.Unlock()
	return op.Answers(protocol.Granted)+op.Answers(protocol.Absent) >= op.need, op.Answers(protocol.Taken) == 0
}

// Buried is Beaten by tombstones, where the op reads what the key holds. Attempt.Mu is held.
func (op *Operation) Buried() bool {
	count := 0
	for i := range op.votes {
		if v := &op.votes[i]; v.answer == protocol.Taken && v.Tombstone() {
			count++
		}
	}
	return count > len(op.votes)-op.need
}

// Answers counts the nodes that have said this. Attempt.Mu is held.
func (op *Operation) Answers(what protocol.Answer) (count int) {
	for i := range op.votes {
		if op.votes[i].answer == what {
			count++
		}
	}
	return count
}

// refused counts the nodes that have refused for this reason. Attempt.Mu is held.
func (op *Operation) refused(why error) (count int) {
	for i := range op.votes {
		if errors.Is(op.votes[i].err, why) {
			count++
		}
	}
	return count
}

// Alarming reports whether others may have taken a failed attempt for a holder, whose end has to
// be announced to them. Attempt.Mu is held.
func (op *Operation) Alarming() bool {
	return len(op.votes)-op.Answers(protocol.Taken) >= op.need
}

// Deleted reports whether a node has deleted the key, or may have. Attempt.Mu is held.
func (op *Operation) Deleted() bool { return op.unanswered || op.Answers(protocol.Granted) > 0 }

// HasDeleted is Deleted for whoever does not hold Attempt.Mu.
func (op *Operation) HasDeleted() bool {
	op.Attempt.Mu.Lock()
	defer op.Attempt.Mu.Unlock()
	return op.Deleted()
}

// Undeleted returns the first of several keys that no node has deleted, or may have. Attempt.Mu is
// held.
func (op *Operation) Undeleted() (key string, ok bool) {
	if op.Many == nil || op.unanswered {
		return "", false
	}
	deleted := make([]bool, len(op.Many.Names))
	for i := range op.votes {
		if v := &op.votes[i]; v.answer == protocol.Granted {
			v.Deleted(func(key int) { deleted[key] = true })
		}
	}
	first := slices.Index(deleted, false)
	if first < 0 {
		return "", false
	}
	return op.Many.Names[first], true
}

// First is when the first of the operation's requests left. Attempt.Mu is held.
func (op *Operation) First() (first clockdrift.Instant) {
	for i := range op.votes {
		if start := op.votes[i].start; start != 0 && (first == 0 || start < first) {
			first = start
		}
	}
	return first
}

// Greatest is the greatest counter that was read so far.
func (op *Operation) Greatest() int64 {
	op.Attempt.Mu.Lock()
	defer op.Attempt.Mu.Unlock()
	return op.counter
}

// A Tally is what came of an operation so far.
type Tally struct {
	Need, Agreed int
	Votes        []Vote
}

// A Vote is what one node has said.
type Vote struct {
	Node    *node.Node
	Answer  protocol.Answer
	Latency time.Duration
	Err     error
	Start   clockdrift.Instant
	Reply   *protocol.Part // only if Answer is not Pending
	Holder  string         // the token that has the key there, if the node has said so
}

// Tally returns what came of the operation so far. Attempt.Mu is held.
func (op *Operation) Tally() Tally {
	t := Tally{Need: op.need, Agreed: op.agreed, Votes: make([]Vote, len(op.votes))}
	for i := range op.votes {
		v := &op.votes[i]
		t.Votes[i] = Vote{Node: v.Node, Answer: v.answer, Err: v.err, Start: v.start}
		if v.answer != protocol.Pending {
			t.Votes[i].Latency, t.Votes[i].Reply = v.answered.Sub(op.Asked), &v.Part
		}
		if op.holders != nil {
			t.Votes[i].Holder = op.holders[i].token
		}
	}
	return t
}

// RoundTrip is how long it took until a quorum of the nodes had answered; 0: none has.
func (op *Operation) RoundTrip() time.Duration {
	op.Attempt.Mu.Lock()
	var took []time.Duration
	for i := range op.votes {
		if v := &op.votes[i]; v.answer == protocol.Granted || v.answer == protocol.Taken || v.answer == protocol.Absent {
			took = append(took, v.answered.Sub(op.Asked))
		}
	}
	op.Attempt.Mu.Unlock()
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(op.need, len(took))-1]
}
