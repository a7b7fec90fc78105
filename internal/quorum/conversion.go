package quorum

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A conversion gives a hold another token: a writer becomes a reader, or a reader a writer. While
// the hold goes on with the one, the other is never deleted at a node, for it may be what keeps
// others out there. Its clean-ups turn it into the token that the hold goes on with. When that is
// over, they delete both. A hold that is converted again and again may leave several tokens at nodes
// that are far away or fail; but a quorum is free of them before the next upgrade.
//
// A command that is about both tokens stands in the lines of both: where a release or an extension
// of the one went ahead of what makes the other one into it, it would not find its token.

// Convert makes a another token of the hold that goes on with the attempt as.
func (a *Attempt) Convert(as *Attempt) {
	a.Mu.Lock()
	a.within, a.sides = as, as.sides
	others := a.others
	a.others = nil
	a.Mu.Unlock()
	others = append(slices.DeleteFunc(append(others, as.Others()...), (*Attempt).Clean), a)
	as.Mu.Lock()
	as.others = others
	as.Mu.Unlock()
}

// Converted lets the hold that went on with from go on with a, and from be another token of it. Mu of
// both is held.
func (a *Attempt) Converted(from *Attempt) {
	a.within = nil
	a.others = append(slices.DeleteFunc(from.others, func(other *Attempt) bool { return other == a }), from)
	from.others = nil
}

// Others are the hold's other tokens that may be at some nodes.
func (a *Attempt) Others() []*Attempt {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return slices.Clone(a.others)
}

// Pass says that nobody needs the token any more: a quorum has granted the one with which its hold goes
// on.
func (a *Attempt) Pass() {
	a.Mu.Lock()
	a.unwanted = true
	a.Mu.Unlock()
	a.Recall()
}

// End notes that the hold which the attempt began is over. Unwanted: nodes that do not have the
// token yet need not get it. Mu is held.
func (a *Attempt) End(unwanted bool) {
	a.over.Store(true)
	a.unwanted = unwanted
}

// releasing is how the token is taken away. Mu is held.
func (a *Attempt) releasing() *protocol.Op {
	switch {
	case a.within == nil:
		return a.Kind.Release
	case a.within.over.Load():
		return protocol.ReleaseBoth
	}
	return protocol.TurnBack
}

// beside notes what a command that is about two tokens has made of the other one. Done: the node has
// done what it asks for. Lost: nobody knows whether it has.
func (op *Operation) beside(n *node.Node, done, lost bool, now clockdrift.Instant) {
	switch turns := op.Op == protocol.TurnBack; {
	case turns && (done || lost):
		op.Beside.onTurned(n, op.Lease, now)
	case !turns && done:
		op.Beside.onTaken(n)
	}
}

// onTaken notes that the token is not at the node any more.
func (a *Attempt) onTaken(n *node.Node) {
	a.Mu.Lock()
	a.nodes[n.Index].onRelease(false)
	a.Mu.Unlock()
}

// onTurned notes that the token is at the node, or may be, where the hold's other one was: for ttl at
// the most. If the hold is over it is taken away again.
func (a *Attempt) onTurned(n *node.Node, ttl time.Duration, now clockdrift.Instant) {
	a.Mu.Lock()
	s := &a.nodes[n.Index]
	s.there, s.since = true, now
	a.Longest = max(a.Longest, ttl)
	a.Mu.Unlock()
	if a.over.Load() {
		a.ToRelease(new(Operation)).AskOf([]*node.Node{n}, 1)
	}
}

// errOther is why a node does not agree that has the hold's other token.
var errOther = errors.New("the lock's other token has the key there: a conversion is under way, or what it left is not cleaned up yet")

// hasOther reports whether a node has refused because of another token of the hold. Mu is held.
func (a *Attempt) hasOther(r *node.Request) bool {
	return slices.ContainsFunc(a.others, func(other *Attempt) bool { return r.Shows(other.token) })
}

// Clean reports whether the token is at no node, and can appear at none.
func (a *Attempt) Clean() bool { return len(a.unclean()) == 0 }

// Gone reports whether that is so at a quorum of the nodes.
func (a *Attempt) Gone() bool { return len(a.nodes)-len(a.unclean()) >= a.Board.Quorum }

// unclean are the nodes where the token is, or may come to be.
func (a *Attempt) unclean() (nodes []*node.Node) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	for i := range a.nodes {
		if !a.nodes[i].clean() {
			nodes = append(nodes, a.Board.Nodes[i])
		}
	}
	return nodes
}
