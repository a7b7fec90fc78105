package quorum

import (
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// tally counts the final answer of a vote; the deciding vote decides the operation. Hold.mu is
// held.
func (op *Operation) tally(v *vote, answer protocol.Answer, err error, now clockdrift.Instant) {
	h := op.Hold
	if op.Op.Votes && op.Agrees(answer) && op.twice(v) {
		answer, err = protocol.Failed, errTwice
	}
	v.err, v.answered = err, now
	if op.Op.Does == lease.Sets {
		h.nodes[v.Node.Index].Votes()
	}
	op.Count(&v.Vote, answer, op.counterOf(v, answer))
	if op.Verdict == lease.Undecided {
		if op.Quorum() {
			op.spoil()
		}
		if verdict := op.Reached(op.oldest()); verdict != lease.Undecided {
			op.decide(verdict, now)
		}
	}
	switch {
	case op.Verdict != lease.Undecided:
	case op.holders != nil && op.Op.Tells():
		if v := op.view(make([]acquire.Seen, 0, usual)); v.Contested() {
			op.locate(&v)
			op.hurry(&v, now)
		}
	case op.Granted() && op.far():
		op.decide(lease.Outranked, now) // a greater number is there before the answer of a distant node
	}
	if op.Op.Does == lease.Frees {
		h.onReleased(v, now)
	}
	v.last = op.Open == 0
	if op.Full != nil && !op.filled && (v.last || op.Op.Does == lease.Sets && (op.Verdict == lease.Missed || op.Verdict == lease.Split) && op.far()) {
		op.due, op.filled = op.due|fills, true
	}
	if v.last {
		op.due |= completes
		if op.Op.Does != lease.Looks {
			op.unlist()
		}
	}
}

// decide ends the operation. Hold.mu is held.
func (op *Operation) decide(how lease.Verdict, now clockdrift.Instant) {
	if op.early != nil {
		op.early.Stop()
	}
	op.Verdict, op.Over = how, now
	op.Hold.decided(op, now)
	op.due |= decides
	if op.due&clears != 0 { // for Close, the last answer may come before the clean-up is asked for
		op.board().Keys.Await(+1)
	}
	if op.Open > 0 && op.needless() {
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

// errTwice is the fate of a vote of a server that has voted as another node before.
var errTwice = errors.New("this server has voted already, as another node: names have changed places")

// twice reports whether the server of v's node has agreed to the operation as another node: between two
// probes, nodes may change places. Hold.mu is held.
func (op *Operation) twice(v *vote) bool {
	v.server = v.Node.Server.Load()
	for i := range op.votes {
		other := &op.votes[i]
		if other != v && v.server != 0 && other.server == v.server && op.Agrees(other.Answer) {
			return true
		}
	}
	return false
}

// spoil takes back the votes that other votes of the operation have spoiled. Hold.mu is held.
func (op *Operation) spoil() {
	if op.board().Restarts == nil || !op.Op.Votes {
		return
	}
	for i := range op.votes {
		v := &op.votes[i]
		if !op.judged(v) {
			continue
		}
		var why error
		for j := range op.votes[:i] {
			if other := &op.votes[j]; why == nil && op.judged(other) {
				why = gate.Twins(v.Evidence, other.Evidence)
			}
		}
		if why != nil {
			v.err = why
			op.Spoil(&v.Vote)
		}
	}
}

// judged reports whether v agrees and a gate has judged it: then its evidence is final. Hold.mu is held.
func (op *Operation) judged(v *vote) bool { return op.Agrees(v.Answer) && v.Evidence != nil }

// reason is why too few nodes agreed: too many nodes cannot tell, or somebody else holds the key. For an
// acquire, somebody else also means several askers without a holder: no token has a quorum by the nodes'
// answers. Hold.mu is held.
func (op *Operation) reason() error {
	silent := op.answers(protocol.Failed) - op.refused(errNeedless) // these might have said anything
	switch {
	case op.Verdict != lease.Dropped && op.refused(fault.ErrPermits) > len(op.votes)-op.Need:
		return fault.ErrPermits
	case op.Verdict == lease.Dropped, silent > len(op.votes)-op.Need:
		return fault.ErrNoQuorum
	case op.Op.Tells():
		v := op.view(make([]acquire.Seen, 0, usual))
		if _, held := v.Holder(op.Need); !held {
			return fault.ErrContended
		}
	case op.Op.Verb == protocol.Raising, op.Op.Verb == protocol.Retaking:
		return fault.ErrContended // the token had a quorum, and nobody is named who has the key now
	}
	return fault.ErrTaken
}

// Why is why the operation has failed. An extension finds the lock lost once other tokens have its key at so
// many nodes that the rest are no quorum.
func (op *Operation) Why() error {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	switch reason := op.reason(); {
	case op.Op.Votes && op.Hold.ended() != nil:
		return op.Hold.ended()
	case !op.Op.Prolongs || reason != fault.ErrTaken: //nolint:errorlint // reason returns the sentinel itself
		return reason
	case op.beaten():
		return fault.ErrLost
	}
	return fault.ErrNoQuorum
}

// beaten reports whether something else has the key at so many nodes that the others are no quorum. Hold.mu
// is held.
func (op *Operation) beaten() bool { return op.answers(protocol.Taken) > len(op.votes)-op.Need }

// buried reports whether the hold is revoked, for an op that reads the key's value. Hold.mu is held.
func (op *Operation) buried() bool {
	count := 0
	for i := range op.votes {
		if v := &op.votes[i]; v.Answer == protocol.Taken && v.Tombstone() {
			count++
		}
	}
	return count >= lease.Tombstones(len(op.votes), op.Need)
}

// answers counts the nodes with this answer. Hold.mu is held.
func (op *Operation) answers(what protocol.Answer) (count int) {
	for i := range op.votes {
		if op.votes[i].Answer == what {
			count++
		}
	}
	return count
}

// refused counts the nodes that refused for this reason. Hold.mu is held.
func (op *Operation) refused(why error) (count int) {
	for i := range op.votes {
		if errors.Is(op.votes[i].err, why) {
			count++
		}
	}
	return count
}

// alarming reports whether others may have taken a failed try for a holder, so that its end has to be
// announced to them. Hold.mu is held.
func (op *Operation) alarming() bool {
	return len(op.votes)-op.answers(protocol.Taken) >= op.Need
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
		if v := &op.votes[i]; v.Answer == protocol.Granted {
			v.Deleted(func(key int) { deleted[key] = true })
		}
	}
	first := slices.Index(deleted, false)
	if first < 0 {
		return "", false
	}
	return op.Many.Names[first], true
}

// Greatest is the greatest counter among the votes, or the number that takes its place: see oldest.
func (op *Operation) Greatest() int64 {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	if greatest := op.Round.Greatest(); greatest >= op.oldest() {
		return greatest
	}
	return op.Fence.Number
}
