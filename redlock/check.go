package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// Check asks all nodes at once whether they are fit to vote: whether they answer, are masters
// and servers of their own, keep their keys, and are admitted under [WithRestartGuard]. It
// returns nil if all are, and a [*CheckError] that names the others. That matches
// [ErrNoQuorum] if those that are fit are no quorum, so that no lock can be taken.
//
// At the first start report every error, for a node that is set up wrongly is not missed until
// another one fails. A readiness probe may look for ErrNoQuorum alone. Check takes one round
// trip, or the node time-out (see [WithNodeTimeout]) where a node is silent. What a key's ACL
// forbids shows when a lock on it is taken.
//
// The error matches [ErrClosed] on a Locker that was closed, and the context's error if ctx
// ended first.
func (l *Locker) Check(ctx context.Context) error {
	c := newClaim(l, markerKey, "", l.options.acquire.ttl)
	op := &operation{task: check, claim: &c, ttl: c.ttl, full: make(chan struct{})}
	op.cmds = append(append(op.cmds, askFitness...), l.look...)
	if l.closed() || !op.ask(l.nodes, l.quorum) {
		return fmt.Errorf("redlock: check: %w", ErrClosed)
	}
	var end error
	select {
	case <-op.full:
	case <-ctx.Done():
		end = endOf(ctx)
	}
	c.mu.Lock()
	votes := op.votes()
	c.mu.Unlock()
	failure := &CheckError{Nodes: len(l.nodes), Need: l.quorum, end: end}
	for i, v := range votes {
		switch v.Answer {
		case Granted:
			r := &op.requests[i] // it has its answer, so nobody writes to it any more
			v.Err = r.node.unfit(r)
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

// check asks a node what it is, and for its records.
var check = &task{name: "check", agrees: granted, read: func(string, []driver.Reply) (Answer, error) { return Granted, nil }}

var errUnheard = errors.New("not answered yet")

// unfit says by the replies to a check why a node has no vote, if it has none.
func (n *node) unfit(r *request) error {
	about, look := r.reply[:len(askFitness)], r.reply[len(askFitness):]
	if err := n.heardFitness(about, r.start); err != nil {
		return err
	}
	if o := &n.locker.options; o.guard == 0 && o.clockGuard == 0 {
		return nil
	}
	_, doubt := n.judge(look, n.locker.clock.Fresh())
	return doubt
}

// CheckError are the nodes that are not fit to vote. It matches what is wrong with them, and
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
	text := fmt.Sprintf("redlock: check: %d of %d nodes have no vote, and %d must have one: %s", len(e.Unfit), e.Nodes, e.Need, strings.Join(lines, "; "))
	if e.end != nil {
		text += ": " + e.end.Error()
	}
	return text
}

// Unwrap makes the error match what it is made of.
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
