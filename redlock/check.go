package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Check asks all nodes at once whether they are fit to vote: whether they answer, are masters and servers of
// their own, keep their keys, and vote under [WithRestartGuard]. It does not test the ACL of keys. It takes
// one round trip, or the node time-out if a node is silent.
//
// A [*QuorumError] has the answer of each node, with an Err of each unfit one. It matches [ErrNoQuorum] if the
// fit ones are no quorum: a readiness probe may test for that alone. Other errors match [ErrClosed], or the
// context's error.
func (l *Locker) Check(ctx context.Context) error {
	op := l.aside(protocol.Check, append(slices.Clip(protocol.AskFitness), l.board.Nodes[0].Gates().Looks()...))
	op.Full = make(chan struct{})
	for _, n := range l.board.Nodes {
		n.AskNow()
	}
	if l.closed() || !op.AskAll() {
		return fmt.Errorf("redlock: check: %w", ErrClosed)
	}
	var end error
	select {
	case <-op.Full:
	case <-ctx.Done():
		end = fault.EndOf(ctx)
	}
	tally, unfit := op.Tally(), 0
	said := votes(tally)
	for i := range said {
		switch v := &said[i]; v.Answer {
		case grantedVote:
			v.Err = l.unfit(&tally.Votes[i])
		case pendingVote:
			v.Err = errUnheard
		}
		if v := &said[i]; v.Err != nil {
			v.Answer = failedVote
			unfit++
		}
	}
	if unfit == 0 {
		return nil
	}
	reason := fmt.Errorf("%d of %d nodes have no vote", unfit, len(said))
	if len(said)-unfit < l.board.Quorum {
		reason = fmt.Errorf("%w: %w", ErrNoQuorum, reason)
	}
	if end != nil {
		reason = fmt.Errorf("%w: %w", reason, end)
	}
	return &QuorumError{Op: protocol.Check.Name, Need: l.board.Quorum, Votes: said, Reason: reason}
}

var errUnheard = errors.New("not answered yet")

// unfit reads from the replies to a check why a node has no vote, or nil.
func (l *Locker) unfit(v *quorum.Vote) error {
	about, look := v.Reply.Reply[:len(protocol.AskFitness)], v.Reply.Reply[len(protocol.AskFitness):]
	if err := v.Node.OnFitness(about, v.Start); err != nil || !v.Node.Gates().Strict() {
		return err
	}
	return v.Node.Gates().Look(look, l.clock.Fresh()).Doubt
}

// asideKey names, behind the prefix, the queue of questions that concern no lock.
const asideKey = "quorumlock:node"

// aside makes a question to nodes that concerns no lock.
func (l *Locker) aside(what *protocol.Op, cmds []driver.Command) *quorum.Operation {
	op := l.board.About(asideKey, what)
	op.Cmds = cmds
	return op
}
