package quorum

import "github.com/quorumlock/quorumlock/internal/node"

// A hand-over gives the key of a lock that is released straight to the next waiter of this Locker,
// in one round trip. To the nodes it is an acquire for the waiter's token that may also overwrite
// the releaser's. To the releaser each answer is that of a release as well, for it says that its
// token is not there any more; where there is no answer, an ordinary release follows.

// HandOver puts op before all nodes: an acquire for its own hold that is release as well, of
// another one. It reports false if the board takes in no such operations any more: then the
// release goes by itself.
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

// handOn tells the old lock's release what a node's final answer to a hand-over means for it, if
// it has answered. That need not be a vote.
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
