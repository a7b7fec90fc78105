package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Propose returns a fence above all fences that it returned before.
//
// The fence is the time in microseconds by the median of the nodes' clocks: nodes accept it at once where
// nothing is wrong, a clock that is years off poisons nothing, and the number of an idle key may be
// forgotten. Proposals from wrong clocks are forgotten once the median is far below them: nodes that
// accepted one refuse smaller fences, which are then raised, and a node that has forgotten it is no longer
// ahead of other clients' clocks.
func (b *Board) Propose() int64 {
	now := b.Microseconds()
	for {
		last := b.proposal.Load()
		p := now
		if last >= now && last-now < maxLead.Microseconds() {
			p = last + 1
		}
		if b.proposal.CompareAndSwap(last, p) {
			return p
		}
	}
}

// maxLead is how far proposals may be ahead of the clocks to be above those before.
const maxLead = 100 * time.Millisecond

// ProposeAgain makes another round of an acquire carry a new fence, above its own before.
func (op *Operation) ProposeAgain() {
	if own := op.Fence.Number; own != 0 {
		op.Uncarry()
		op.Carry(max(op.board().Propose(), own+1))
	}
}

// carryAlong makes an extension carry the lock's fence p to nodes with a smaller one, if p is ahead of the
// clocks. Other fences need no carrying: later proposals are above them.
func (op *Operation) carryAlong(p int64) {
	if p-op.board().Microseconds() > maxLead.Microseconds() {
		op.Carry(p)
	}
}

// Propose makes an acquire carry a new fence, if fences are wanted and its kind has them.
func (op *Operation) Propose() {
	if b := op.board(); b.Fences && op.Op.Fenced() {
		op.Carry(b.Propose())
	}
}

// counterOf is the node's counter in a vote, where the operation reads counters. Hold.mu is held.
func (op *Operation) counterOf(v *vote, answer protocol.Answer) int64 {
	switch {
	case op.Op == protocol.Counters && v.told:
		return v.Counter()
	case op.Op.Reads && op.Fence.Number != 0 && op.Agrees(answer):
		return v.Number()
	}
	return 0
}

// oldest is the least counter that may become a reader's number. An older counter may have come back with an
// old file, at a node that has forgotten a greater one: the proposed number takes its place.
func (op *Operation) oldest() int64 {
	if age := op.board().ReadAge; age > 0 && op.Op.Reads && op.Fence.Number != 0 && !op.Op.Levels {
		return op.Fence.Number - age.Microseconds()
	}
	return 0
}

// maxRaises bounds the proposals after the first. Each is above all numbers that a quorum had accepted a
// moment before, so it fails only if another try proposed in between.
const maxRaises = 4

// raise finds a greater fence for a token that holds the key at a quorum, but whose number is not above
// those accepted by too many nodes: of a client whose clock reads more, or from before a node forgot. It
// costs two round trips, inside the lease: it reads the counters, and proposes a greater number.
func (h *Hold) raise(ctx context.Context, rounds *int) (op *Operation, err error) {
	for range maxRaises {
		*rounds++
		look := new(Operation)
		look.Prepare(h, protocol.Counters, h.Acquire.Lease)
		look.Encode(nil)
		look.AskAll() // it sets nothing, and works even while the Locker is closed
		if look.Await(ctx, h.Board.Closing); look.Verdict != lease.Carried {
			return look, nil
		}
		p := max(h.Board.Propose(), look.Greatest()+1)
		if p >= protocol.MaxFence {
			return look, &fault.StateError{Op: "acquire", Key: h.Key, Why: fmt.Errorf("%w: a counter of the set %q has come to its end: delete the set at all nodes while nobody works under its keys", fault.ErrFence, look.Fence.Set)}
		}
		if op = h.propose(ctx, h.Kind.Raise, p); op.Verdict != lease.Outranked {
			break
		}
	}
	return op, nil
}

// maxLevels bounds the rounds that bring a reader's number to a quorum. Only a writer, or other readers of
// an idle key, who raise the counters in between, make more than one necessary.
const maxLevels = 8

// level brings the greatest number among a reader's votes to a quorum: otherwise a later writer might get a
// smaller number, as some nodes had. It costs one round trip, inside the lease.
func (h *Hold) level(ctx context.Context, number int64, rounds *int) (op *Operation) {
	for range maxLevels {
		*rounds++
		if op = h.propose(ctx, h.Kind.Level, number); op.Verdict != lease.Outranked { // or a writer came in between
			break
		}
		number = op.Greatest()
	}
	return op
}

// propose asks all nodes to accept the number p as the hold's fence, and waits for the decision.
func (h *Hold) propose(ctx context.Context, what *protocol.Op, p int64) *Operation {
	op := new(Operation)
	op.Prepare(h, what, h.Acquire.Lease)
	op.Carry(p)
	if op.AskAll() {
		op.Await(ctx, h.Board.Closing)
	}
	return op
}
