package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Check asks all nodes at once whether they are fit to vote: whether they answer, are masters and
// servers of their own, keep their keys, and vote under [WithRestartGuard]. It does not
// test the ACL of keys. It takes one round trip, or the node time-out if a node is silent.
//
// A [*CheckError] names the unfit ones. It matches [ErrNoQuorum] if the fit ones are no quorum: a
// readiness probe may test for that alone; at the first start report every error, for a
// misconfigured node goes unnoticed until another one fails. Other errors match [ErrClosed], or the
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
	tally := op.Tally()
	failure := &CheckError{Nodes: len(l.board.Nodes), Need: l.board.Quorum, end: end}
	for i, v := range votes(tally) {
		switch v.Answer {
		case Granted:
			v.Err = l.unfit(&tally.Votes[i])
		case Pending:
			v.Err = errUnheard
		}
		if v.Err != nil {
			v.Answer = Failed
			failure.Unfit = append(failure.Unfit, v)
		}
	}
	if failure.Unfit == nil {
		return nil
	}
	return failure
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

// CheckError names the nodes that are not fit to vote. It matches their errors, and
// [ErrNoQuorum] if too few are left.
type CheckError struct {
	Nodes int // in all
	Need  int // the votes that make a quorum
	Unfit []Vote
	end   error // the context's, if it ended first
}

func (e *CheckError) Error() string {
	lines := make([]string, len(e.Unfit))
	for i, v := range e.Unfit {
		lines[i] = v.String()
	}
	text := e.summary() + ": " + strings.Join(lines, "; ")
	if e.end != nil {
		text += ": " + e.end.Error()
	}
	return text
}

func (e *CheckError) summary() string {
	return fmt.Sprintf("redlock: check: %d of %d nodes have no vote, and %d must have one", len(e.Unfit), e.Nodes, e.Need)
}

// Unwrap makes the error match its parts.
func (e *CheckError) Unwrap() (all []error) {
	if e.Nodes-len(e.Unfit) < e.Need {
		all = append(all, ErrNoQuorum)
	}
	if e.end != nil {
		all = append(all, e.end)
	}
	for _, v := range e.Unfit {
		all = append(all, v.Err)
	}
	return all
}
