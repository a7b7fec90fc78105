package redlock

import "github.com/quorumlock/quorumlock/internal/scripts"

// A hand-over gives the key of a lock that is released straight to the next waiter of
// this Locker, in one round trip. To the nodes it is an acquire for the waiter's token
// that may also overwrite the releaser's. To the releaser each answer is that of a release
// as well, for it says that his token is not there any more; where there is no answer,
// an ordinary release follows.

// handOver gives the lock's key to the next waiter, if one can take it, and returns the
// release that this stands for. Otherwise it returns nil.
func (l *Lock) handOver() *operation {
	c := &l.claim
	w := c.locker.queues.heir(c.key)
	if w == nil {
		return nil
	}
	heir, err := c.locker.newLock(w.ctx, c.key, w.options, false)
	if err != nil { // the waiter's own token is spent: let him hear of it
		w.gift <- nil
		return nil
	}
	old := c.toRelease(&l.release)
	old.enter(c.locker.nodes, c.locker.quorum)
	op := &heir.acquire
	op.task, op.old = inherit, old
	op.say(&heir.words, scripts.Hold.One(heir.words.args[:], heir.claim.keyArg, heir.claim.tokenArg, c.locker.milliseconds(w.options.ttl), c.tokenArg))
	heir.claim.loud = true
	if op.ask(c.locker.nodes, c.locker.quorum) {
		w.gift <- heir
		return old
	}
	w.gift <- nil // the Locker is being closed
	old.submit(c.locker.nodes)
	return old
}

// bequeath tells the old lock's release what a node's final answer to a hand-over
// means for it.
func (op *operation) bequeath(r *request, answer Answer) {
	old := &op.old.requests[r.node.index]
	if answer == Failed {
		r.node.submit(old)
		return
	}
	old.reply = notThere
	if r.reply[0].Int == takenOver {
		old.reply = deleted
	}
	op.old.heard(old, nil, nil, op.claim.locker.clock.Now(), true)
	r.node.pass([]*request{old})
}
