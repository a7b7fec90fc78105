package quorum

import "github.com/quorumlock/quorumlock/internal/node"

// A hand-over gives the key of a released lock straight to the next waiter of this Locker, in one round
// trip. To the nodes it is an acquire for the waiter's token that may also overwrite the releaser's. To the
// releaser each answer is a release's as well, for it says that the releaser's token is gone; without an
// answer an ordinary release follows.

// HandOver puts op before all nodes: an acquire for its own hold that is another hold's release as well.
// False: the board is closed to such operations, and the release goes by itself.
func (op *Operation) HandOver(release *Operation) bool {
	b := op.board()
	op.Hold.loud = true
	release.enter(b.Nodes, b.Quorum)
	op.Handoff = release
	if op.AskAll() {
		return true
	}
	release.submit(b.Nodes)
	return false
}

// unheard notes that a hand-over in the release's place was sent to a node and got no answer. A later
// answer, that the token is not there, does not prove a loss: the hand-over may have taken the token away.
func (op *Operation) unheard() {
	op.Hold.mu.Lock()
	op.unanswered = true
	op.Hold.mu.Unlock()
}

// handOn gives a node's final answer to a hand-over to the old lock's release, if there is an answer, vote
// or not.
func (op *Operation) handOn(r *node.Request, answered bool) {
	old := &op.Handoff.votes[r.Index].Request
	if !answered {
		op.Handoff.put(old)
		return
	}
	old.SetReply(r.TookOver())
	op.Handoff.Answered(old, nil, nil, op.board().Clock.Now(), true)
	op.Handoff.Passed(old)
}
