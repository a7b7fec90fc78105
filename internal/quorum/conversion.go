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

// A conversion gives a lock another token, and so another hold: a writer becomes a reader, or a reader a
// writer. While the lock goes on with the second token, the first is never deleted at a node, for it may be
// what keeps others out there. Clean-ups of the first turn it into the second. When the lock is over,
// clean-ups delete both. A lock that is converted again and again may leave several tokens at distant or
// failing nodes; but a quorum is free of them before the next upgrade.
//
// A command about both tokens waits in the queues of both: it would not find its token if a release or an
// extension of the one overtook the command that makes the one into the other.

// A kin is the holds of a converted lock's other tokens.
type kin struct {
	from   *Hold   // the reader's hold that this one goes on with; nil: none
	others []*Hold // the lock's earlier and later tokens: see [Hold.convert]
	within *Hold   // the hold of the lock's present token: see [Hold.convert]
	raises bool    // an upgrade is under way
}

// Downgrade ends the writer's hold, and begins the hold of the reader r with the same lease and another
// token. The Acquire of r is the operation that turns the one token into the other. The error says why the
// hold stays a writer's.
func (h *Hold) Downgrade(r *Hold) error {
	ttl := h.Acquire.Lease
	h.begets(r, protocol.Shared)
	r.loud = true
	now := h.observe()
	err := h.ended()
	if err == nil {
		r.life.GoOn(&h.life)
		r.due.Store(int64(r.life.Until()))
		ttl = max(protocol.MinTTL, min(ttl, h.life.Limit().Sub(now).Truncate(time.Millisecond)))
		err = r.Keeper.Begins(now)
	}
	if err == nil {
		h.given = true
		h.end(lease.Converted, now)
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	h.convert(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.Renewal != nil {
		r.Renew(h.Renewal.ttl)
		r.Renewal.begin(now)
	}
	op := &r.Acquire
	op.Beside = h
	op.Prepare(r, protocol.Downgrade, ttl)
	op.Ends, op.Old = r.life.Until(), h.token
	return nil
}

// begets makes to a hold of the kind, with another token, that may go on with h.
func (h *Hold) begets(to *Hold, kind *protocol.Kind) {
	to.Init(h.Board, kind, h.Key, h.Board.Random.Token(protocol.Owner(h.Token)), h.Acquire.Lease)
	to.life.Asks(h.Longest())
}

// Upgrades notes whether an upgrade of the reader's hold is under way. False: another upgrade is, or the
// hold is over.
func (h *Hold) Upgrades(begins bool) (first bool, ended error) {
	h.observe()
	defer h.mu.Unlock()
	first, h.raises = !h.raises, begins
	return first, h.ended()
}

// Upgrade makes w the writer's hold that is to go on with the reader's. Its Acquire is the operation that
// turns the one token into the other.
func (h *Hold) Upgrade(w *Hold) (ended error) {
	h.begets(w, protocol.Exclusive)
	w.from = h
	h.mu.Lock()
	w.life.Within(h.life.Limit())
	h.mu.Unlock()
	if h.Renewal != nil {
		w.Renew(h.Renewal.ttl)
	}
	w.convert(h)
	op := &w.Acquire
	op.Prepare(w, protocol.Upgrade, h.Acquire.Lease)
	op.Old, op.Beside = h.token, h
	op.Encode(nil)
	op.Propose()
	ended, _ = h.Over()
	return ended
}

// GoesOn ends the reader's hold that h goes on with, unless there is none, or it has ended before. h.mu is
// held.
func (h *Hold) GoesOn(now clockdrift.Instant) bool {
	from := h.from
	if from == nil {
		return true
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	from.check(now)
	if from.life.Phase() == lease.Over {
		return false
	}
	from.given = true
	from.end(lease.Converted, now)
	h.within = nil
	h.others = append(slices.DeleteFunc(from.others, func(other *Hold) bool { return other == h }), from)
	from.others = nil
	return true
}

// convert makes h another hold of the lock that goes on with the hold as.
func (h *Hold) convert(as *Hold) {
	h.mu.Lock()
	h.within, h.sides = as, as.sides
	others := h.others
	h.others = nil
	h.mu.Unlock()
	others = append(slices.DeleteFunc(append(others, as.Others()...), (*Hold).Clean), h)
	as.mu.Lock()
	as.others = others
	as.mu.Unlock()
}

// Others are the holds of the lock whose tokens may be at some nodes.
func (h *Hold) Others() []*Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.others)
}

// LetGo says that nobody needs the token any more: a quorum has granted the lock's next token.
func (h *Hold) LetGo() {
	h.mu.Lock()
	h.life.Stop()
	h.mu.Unlock()
	h.Recall()
}

// releasing is how the token is taken away. h.mu is held.
func (h *Hold) releasing() *protocol.Op {
	switch lease.Leaving(h.within != nil, h.within != nil && h.within.over.Load()) {
	case lease.ForOther:
		return protocol.Revert
	case lease.Both:
		return protocol.ReleaseBoth
	}
	return h.Kind.Release
}

// leavesBeside asks the trace of the other token whether a command about two tokens may leave, and notes
// that it does.
func (op *Operation) leavesBeside(v *vote, now clockdrift.Instant) bool {
	h := op.Beside
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life.LeavesBeside(op.Op.Besides, &v.Vote, &h.nodes[v.Node.Index].Trace, op.Lease, now)
}

// beside notes what a command about two tokens has made of the other one. Done: the node has done its part.
func (op *Operation) beside(v *vote, done bool, fate lease.Fate, now clockdrift.Instant) {
	h := op.Beside
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life.AnsweredBeside(op.Op.Besides, &v.Vote, &h.nodes[v.Node.Index].Trace, fate, done, now)
}

// errOther is the refusal of a node that has the hold's other token.
var errOther = errors.New("the lock's other token has the key there: a conversion is under way, or what it left is not cleaned up yet")

// hasOther reports whether a node has refused because of another token of the hold. h.mu is held.
func (h *Hold) hasOther(r *node.Request) bool {
	return slices.ContainsFunc(h.others, func(other *Hold) bool { return r.Shows(other.token) })
}

// Clean reports whether the token is at no node, and can appear at none.
func (h *Hold) Clean() bool { return len(h.unclean()) == 0 }

// Gone reports whether a quorum of the nodes is free of the token.
func (h *Hold) Gone() bool { return len(h.nodes)-len(h.unclean()) >= h.Board.Quorum }

// unclean are the nodes where the token is, or may come to be.
func (h *Hold) unclean() (nodes []*node.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.nodes {
		if !h.nodes[i].Clean() {
			nodes = append(nodes, h.Board.Nodes[i])
		}
	}
	return nodes
}
