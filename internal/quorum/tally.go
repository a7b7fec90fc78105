package quorum

import (
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// tally counts the final answer of a vote; the deciding vote decides the operation. Hold.mu is
// held.
func (op *Operation) tally(v *vote, answer protocol.Answer, err error, now clockdrift.Instant) {
	h := op.Hold
	if op.Op.Votes && op.Op.Agrees(answer) && op.twice(v) {
		answer, err = protocol.Failed, errTwice
	}
	v.answer, v.err, v.answered = answer, err, now
	if op.Op.Sets {
		h.nodes[v.Node.Index].asked--
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
		case op.agreed >= op.need && (op.agreed-op.spared >= op.need || op.open == 0) && op.quorate():
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
		h.onReleased(v, now)
	}
	v.last = op.open == 0
	if op.Full != nil && !op.filled && (v.last || op.Op.Sets && (op.Outcome == Failed || op.Outcome == Split) && op.far()) {
		op.due, op.filled = op.due|fills, true
	}
	if v.last {
		op.due |= completes
		if op.Op.Sets || op.Op.Frees {
			op.unlist()
		}
	}
}

// decide ends the operation. Hold.mu is held.
func (op *Operation) decide(how Outcome, now clockdrift.Instant) {
	if op.early != nil {
		op.early.Stop()
	}
	op.Outcome, op.Over = how, now
	op.Hold.decided(op, now)
	op.due |= decides
	if op.due&clears != 0 { // for Close, the last answer may come before the clean-up is asked for
		op.board().Keys.Await(+1)
	}
	if op.open > 0 && op.needless() {
		op.due |= recalls
	}
}

// unsent reports whether some of the operation's requests have not left. Hold.mu is held.
func (op *Operation) unsent() bool {
	for i := range op.votes {
		if op.votes[i].Unsent() {
			return true
		}
	}
	return false
}

// deadline is when the lease ends that the votes have granted. Hold.mu is held.
func (op *Operation) deadline() clockdrift.Instant {
	return clockdrift.Deadline(op.Start, op.Lease, op.board().Drift)
}

// errTwice is the fate of a vote of a server that has voted as another node before.
var errTwice = errors.New("this server has voted already, as another node: names have changed places")

// twice reports whether the server that v's node is now has agreed to the operation as another
// node: between two probes of them, nodes may change places. Hold.mu is held.
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

// quorate takes back the votes that others of the operation have spoiled, and reports whether there
// are still enough. Hold.mu is held.
func (op *Operation) quorate() bool {
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
// evidence any more. Hold.mu is held.
func (op *Operation) judged(v *vote) bool { return op.Op.Agrees(v.answer) && v.Evidence != nil }

// reason is why too few nodes agreed: too many nodes cannot say, or somebody else has the
// key. Of an acquire it is also said if several may ask for the key and nobody have it: the nodes
// name no token that has a quorum of them. Hold.mu is held.
func (op *Operation) reason() error {
	silent := op.answers(protocol.Failed) - op.refused(errNeedless) // which might have said anything
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

// Why is why the operation has failed. An extension finds the lock lost once other tokens have its
// key at so many nodes that the rest are no quorum.
func (op *Operation) Why() error {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	switch reason := op.reason(); {
	case op.Op.Votes && op.Hold.ended != nil:
		return op.Hold.ended
	case !op.Op.Prolongs || reason != fault.ErrTaken: //nolint:errorlint // reason returns the sentinel itself
		return reason
	case op.beaten():
		return fault.ErrLost
	}
	return fault.ErrNoQuorum
}

// beaten reports whether something else has the key at so many nodes that the others are no quorum.
// Hold.mu is held.
func (op *Operation) beaten() bool { return op.answers(protocol.Taken) > len(op.votes)-op.need }

// Vacant reports whether a quorum has the token or nothing, and whether no node has said that
// something else is there.
func (op *Operation) Vacant() (quorum, alone bool) {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	return op.answers(protocol.Granted)+op.answers(protocol.Absent) >= op.need, op.answers(protocol.Taken) == 0
}

// buried is beaten by tombstones, where the op reads what the key holds. Hold.mu is held.
func (op *Operation) buried() bool {
	count := 0
	for i := range op.votes {
		if v := &op.votes[i]; v.answer == protocol.Taken && v.Tombstone() {
			count++
		}
	}
	return count > len(op.votes)-op.need
}

// answers counts the nodes that have said this. Hold.mu is held.
func (op *Operation) answers(what protocol.Answer) (count int) {
	for i := range op.votes {
		if op.votes[i].answer == what {
			count++
		}
	}
	return count
}

// refused counts the nodes that have refused for this reason. Hold.mu is held.
func (op *Operation) refused(why error) (count int) {
	for i := range op.votes {
		if errors.Is(op.votes[i].err, why) {
			count++
		}
	}
	return count
}

// alarming reports whether others may have taken a failed try for a holder, whose end has to
// be announced to them. Hold.mu is held.
func (op *Operation) alarming() bool {
	return len(op.votes)-op.answers(protocol.Taken) >= op.need
}

// Deleted reports whether a node has deleted the key, or may have.
func (op *Operation) Deleted() bool {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	return op.unanswered || op.answers(protocol.Granted) > 0
}

// Undeleted returns the first of several keys that no node has deleted, or may have.
func (op *Operation) Undeleted() (key string, ok bool) {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
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

// first is when the first of the operation's requests left. Hold.mu is held.
func (op *Operation) first() (first clockdrift.Instant) {
	for i := range op.votes {
		if start := op.votes[i].start; start != 0 && (first == 0 || start < first) {
			first = start
		}
	}
	return first
}

// Greatest is the greatest counter that was read so far.
func (op *Operation) Greatest() int64 {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	return op.counter
}
