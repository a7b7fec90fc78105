package quorum

import (
	"cmp"
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// hurry fails a contested acquire without the silent nodes, at once or a moment later: a quorum has
// answered, and among its votes a split is settled in a few round trips. Later grants are no votes of this
// round. Hold.mu is held.
func (op *Operation) hurry(v *acquire.View, now clockdrift.Instant) {
	switch wait := v.Hurry(op.Seen, op.Asked.Sub(op.Since)); {
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

// disputed reports whether a failed acquire may be settled by rank. Hold.mu is held.
func (op *Operation) disputed() bool {
	if op.Verdict != lease.Missed || op.Op.Verb != protocol.Acquiring {
		return false
	}
	v := op.view(make([]acquire.Seen, 0, usual))
	return v.Disputed()
}

// far reports whether all silent nodes are known to be farther away than the others. Hold.mu is held.
func (op *Operation) far() bool {
	v := op.view(make([]acquire.Seen, 0, usual))
	op.locate(&v)
	wait, _ := v.Late()
	return wait == 0
}

// Late is how long to wait for late answers; 0: a quorum names the same token, or the silent nodes are far
// away.
func (op *Operation) Late() time.Duration {
	v := op.View()
	if _, held := v.Holder(op.Need); held {
		return 0
	}
	op.locate(&v)
	wait, _ := v.Late()
	return wait
}

// A Contest is an acquire with split votes, which is asked again.
type Contest struct {
	Over  chan struct{} // closed when the split is settled, or the hold has let go
	again *Operation    // the last round, if there was a second; guarded by Hold.mu
}

// Last is the last round of an acquire that is over.
func (h *Hold) Last() *Operation {
	if c := h.Contest; c != nil && c.again != nil {
		return c.again
	}
	return &h.Acquire
}

// Conclude brings an acquire to its end that the deciding vote has left open: it settles a contest, and
// raises a fence that too many nodes refuse. It returns the last operation. Rounds is told of each proposal.
func (h *Hold) Conclude(ctx context.Context, rounds *int) (op *Operation, err error) {
	op = &h.Acquire
	if op.Verdict == lease.Split {
		defer h.Board.Keys.Stay(op)()
		defer close(h.Contest.Over)
		op = h.settle(ctx)
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

// settle asks the nodes again for a hold with split votes, while it leads. It starts no round after the
// bound.
func (h *Hold) settle(ctx context.Context) *Operation {
	var contest acquire.Contest
	op, bound := &h.Acquire, cmp.Or(h.Bound, new(clockdrift.Instant))
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
		v := op.View()
		if rest, again := contest.Next(&v, op.RoundTrip(), decided, *bound); !again || !h.Board.Rest(ctx, rest) {
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
