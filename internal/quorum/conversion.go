package quorum

import (
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A conversion gives a hold another token: a writer becomes a reader, or a reader a writer. While
// the hold runs, its other token is never deleted at a node, for it may be what keeps others out
// there. Its clean-ups turn it into the token that the hold goes on with. When the hold is over
// they delete both.

// Convert makes a the other token of the hold that goes on with the attempt as.
func (a *Attempt) Convert(as *Attempt) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	a.within, a.sides = as, as.sides
}

// Converted makes a a token of its own again, whose hold goes on with it. Mu is held.
func (a *Attempt) Converted() { a.within = nil }

// End notes that the hold which the attempt began is over.
func (a *Attempt) End() { a.over.Store(true) }

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

// onConverted notes that the token is not at the node any more, because another one has its place.
func (a *Attempt) onConverted(n *node.Node) {
	a.Mu.Lock()
	a.nodes[n.Index].onRelease(false)
	a.Mu.Unlock()
}

// CleanUp lets the nodes be cleaned of the token, soon.
func (a *Attempt) CleanUp() {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	a.Abandon()
}

// Clean reports whether the token is at no node, and can appear at none.
func (a *Attempt) Clean() bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	for i := range a.nodes {
		if !a.nodes[i].clean() {
			return false
		}
	}
	return true
}
