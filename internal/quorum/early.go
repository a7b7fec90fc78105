package quorum

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// contested reports whether a quorum has answered an acquire, and somebody has some of its votes:
// whether it gets a quorum is up to nodes that may be silent. Attempt.Mu is held.
func (op *Operation) contested() bool {
	return op.holders != nil && op.Op.Tells() &&
		len(op.votes)-op.open-op.Answers(protocol.Failed) >= op.need
}

// hurry fails an acquire that is contested without the nodes that have not answered, at once or a
// moment later: those that have are a quorum, and among their votes a split is settled in a few round
// trips. What the others grant from then on is no vote of it. Attempt.Mu is held.
func (op *Operation) hurry(now clockdrift.Instant) {
	switch wait := op.moment(); {
	case wait == 0:
		op.failEarly(now)
	case op.early == nil:
		op.early = time.AfterFunc(wait, func() {
			now := op.board().Clock.Fresh()
			op.Attempt.Mu.Lock()
			op.failEarly(now)
			op.unlock()
		})
	}
}

// failEarly fails an undecided acquire now. Attempt.Mu is held.
func (op *Operation) failEarly(now clockdrift.Instant) {
	if op.Outcome == Undecided {
		op.Early = true
		op.decide(Failed, now)
	}
}

// moment is how long the nodes that have not answered may take; 0: they are known to be farther away
// than those that have. A split is settled at the distance of these: otherwise one node that is far
// away would hold up every key that is contended for. But who is in the way for as long as the others
// need to answer is no contender. Then it is worth while to wait for the nodes that it does not have,
// and for as long as it has been in the way, for they may be slow. Attempt.Mu is held.
func (op *Operation) moment() time.Duration {
	wait, far := op.late()
	if far = max(far, aMoment); op.Seen != "" && op.names(op.Seen) {
		if stood := op.Asked.Sub(op.Since); stood >= far {
			return max(Moment(far), stood)
		}
	}
	return wait
}

// Late is how long answers may take that have not come, where the next step depends on who has the
// key; 0: a quorum names the same token, or those nodes are farther away than the others.
func (op *Operation) Late() time.Duration {
	op.Attempt.Mu.Lock()
	defer op.Attempt.Mu.Unlock()
	if _, held := op.has(op.need); held {
		return 0
	}
	wait, _ := op.late()
	return wait
}

// far reports whether only such nodes have not answered. Attempt.Mu is held.
func (op *Operation) far() bool {
	wait, _ := op.late()
	return wait == 0
}

// late is Late, and how far away the farthest of those nodes is. Attempt.Mu is held.
func (op *Operation) late() (wait, far time.Duration) {
	near := op.board().Trip()
	for i := range op.votes {
		if v := &op.votes[i]; v.answer == protocol.Granted || v.answer == protocol.Taken {
			near = max(near, v.Node.Trip())
		}
	}
	for i := range op.votes {
		v := &op.votes[i]
		if v.answer != protocol.Pending {
			continue
		}
		trip := v.Node.Trip()
		if far = max(far, trip); trip <= 2*near+aMoment {
			wait = max(Moment(near), aMoment)
		}
	}
	return wait, far
}

// aMoment is the least time that nodes get which are not known to be far away. On a busy machine
// replies that are here already are read so late.
const aMoment = 5 * time.Millisecond

// names reports whether a node has said that the token has the key. Attempt.Mu is held.
func (op *Operation) names(token string) bool {
	return slices.ContainsFunc(op.holders, func(h holderView) bool { return h.token == token })
}

// Moment is how long nodes at this distance may take whose answers are no more than welcome.
func Moment(trip time.Duration) time.Duration { return max(4*trip, 2*time.Millisecond) }
