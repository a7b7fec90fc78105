package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// contested reports whether a quorum has answered an acquire, and somebody has some of its votes:
// whether it gets a quorum is up to nodes that may be silent. Hold.mu is held.
func (op *Operation) contested() bool {
	return op.holders != nil && op.Op.Tells() &&
		len(op.votes)-op.Open-op.answers(protocol.Failed) >= op.Need
}

// hurry fails an acquire that is contested without the nodes that have not answered, at once or a
// moment later: those that have are a quorum, and among their votes a split is settled in a few
// round trips. What the others grant from then on is no vote of it. Hold.mu is held.
func (op *Operation) hurry(now clockdrift.Instant) {
	switch wait := op.moment(); {
	case wait == 0:
		op.failEarly(now)
	case op.early == nil:
		op.early = time.AfterFunc(wait, func() {
			now := op.board().Clock.Fresh()
			op.Hold.mu.Lock()
			op.failEarly(now)
			op.unlock()
		})
	}
}

// failEarly fails an undecided acquire now. Hold.mu is held.
func (op *Operation) failEarly(now clockdrift.Instant) {
	if op.Verdict == lease.Undecided {
		op.Early = true
		op.decide(lease.Missed, now)
	}
}

// moment is how long the nodes that have not answered may take; 0: they are known to be farther
// away than those that have. A split is settled at the distance of these: otherwise one node that
// is far away would hold up every key that is contended for. But who is in the way for as long as
// the others need to answer is no contender. Then it is worth while to wait for the nodes that it
// does not have, and for as long as it has been in the way, for they may be slow. Hold.mu is
// held.
func (op *Operation) moment() time.Duration {
	wait, far := op.late()
	if far = max(far, aMoment); op.Seen != "" && op.names(op.Seen) {
		if stayed := op.Asked.Sub(op.Since); stayed >= far {
			return max(Moment(far), stayed)
		}
	}
	return wait
}

// Late is how long answers may take that have not come, where the next step depends on who has the
// key; 0: a quorum names the same token, or those nodes are farther away than the others.
func (op *Operation) Late() time.Duration {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	if _, held := op.has(op.Need); held {
		return 0
	}
	wait, _ := op.late()
	return wait
}

// far reports whether only such nodes have not answered. Hold.mu is held.
func (op *Operation) far() bool {
	wait, _ := op.late()
	return wait == 0
}

// late is Late, and how far away the farthest of those nodes is. Hold.mu is held.
func (op *Operation) late() (wait, far time.Duration) {
	near := op.board().Trip()
	for i := range op.votes {
		if v := &op.votes[i]; v.Answer == protocol.Granted || v.Answer == protocol.Taken {
			near = max(near, v.Node.Trip())
		}
	}
	for i := range op.votes {
		v := &op.votes[i]
		if v.Answer != protocol.Pending {
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

// names reports whether a node has said that the token has the key. Hold.mu is held.
func (op *Operation) names(token string) bool {
	return slices.ContainsFunc(op.holders, func(h holderView) bool { return h.token == token })
}

// Moment is how long nodes at this distance may take whose answers are no more than welcome.
func Moment(trip time.Duration) time.Duration { return max(4*trip, 2*time.Millisecond) }

// A Contest is an acquire whose votes were split, so that it is asked again.
type Contest struct {
	Over  chan struct{} // closed when it is settled, or the hold has let go
	again *Operation    // the last round, if there was a second; guarded by Hold.mu
}

// Last is the last round of the acquire, which is over.
func (h *Hold) Last() *Operation {
	if c := h.Contest; c != nil && c.again != nil {
		return c.again
	}
	return &h.Acquire
}

// A contest is a key whose votes are split: several tokens were asked for at the same moment,
// and none has a quorum. SET NX GET tells each contender which node has which token. The
// one with the most votes leads; among equals, the one with the greatest token. The leader
// keeps its votes and asks all nodes again; the others release theirs. Nodes that have not answered
// are not waited for: see [Operation.Early].
//
// Ranking is advice: views may differ, and then two contenders lead, or none does. Safety
// does not depend on it. Every round collects all votes anew, and the lease counts from the
// first byte of the first round: see [lease.Hold.Decided]. A leader without progress releases its votes,
// and contenders without votes try again after a random pause.

// maxStalls is how many rounds in a row a leader may gain no vote before it releases its own.
const maxStalls = 3

// Conclude brings an acquire to its end that the deciding vote has left open: it settles a contest,
// and raises a fence that too many nodes do not accept. It returns the last operation. Rounds are
// told of each proposal.
func (h *Hold) Conclude(ctx context.Context, bound *clockdrift.Instant, rounds *int) (op *Operation, err error) {
	op = &h.Acquire
	if op.Verdict == lease.Split {
		defer h.Board.Keys.Stay(op)()
		defer close(h.Contest.Over)
		op = h.settle(ctx, bound)
	}
	switch {
	case op.Verdict != lease.Outranked:
		return op, nil
	case h.Kind.Level != nil:
		op = h.level(ctx, op.Greatest(), rounds)
	default:
		op, err = h.raise(ctx, rounds)
	}
	if err != nil || op.Verdict != lease.Carried {
		h.refuse()
	}
	return op, err
}

// settle asks the nodes again for a hold with split votes, while it leads. It starts no round after
// the bound: one node time-out from the first split, if none was set before.
func (h *Hold) settle(ctx context.Context, bound *clockdrift.Instant) *Operation {
	op, most, stalls := &h.Acquire, 0, 0
	for op.Verdict == lease.Split {
		decided := h.Board.Clock.Now()
		if *bound == 0 {
			*bound = decided.Add(op.Patience())
		}
		if op.Early {
			op.Dismiss()
		} else {
			op.AwaitMore(ctx)
		}
		trip := op.RoundTrip()
		mine, leads := op.Rank()
		if stalls++; mine > most {
			most, stalls = mine, 0
		}
		pause := trip / 4 << stalls
		if !leads || stalls == maxStalls || decided.Add(pause+trip) > *bound || !h.Board.Rest(ctx, pause) {
			h.refuse()
			break
		}
		op = h.askAgain(ctx)
	}
	return op
}

// askAgain asks all nodes once more, with the same token, and waits for the decision.
func (h *Hold) askAgain(ctx context.Context) *Operation {
	first := &h.Acquire
	op := &Operation{Ask: first.Ask, Lease: first.Lease, Hold: h, Seen: first.Seen, Since: first.Since}
	op.ProposeAgain() // all votes of a lock are for one number
	if op.Waits {
		op.Full = make(chan struct{})
	}
	h.mu.Lock()
	h.Contest.again = op
	h.mu.Unlock()
	if op.AskAll() {
		op.Await(ctx, h.Board.Closing)
	} else {
		h.refuse()
	}
	return op
}
