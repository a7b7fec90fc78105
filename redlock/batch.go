package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// send sends requests as one batch and gives every reply to its request.
//
// Two things are sent once more, within the same time-out: what needs a script that
// the node does not know, with the script's source; and all that a broken connection
// left unanswered, for an idle connection that the server has closed fails at its
// next use. That is safe because a request that is run twice finds its own token.
func (s *sender) send(requests []*request) {
	if len(requests) == 0 {
		return
	}
	l := s.node.locker
	patience := l.timeout
	for _, r := range requests {
		patience = max(patience, r.op.due.Sub(r.op.asked))
	}
	const most = 3 // as it is, over a new connection, with the source
	b := batch{sender: s, requests: requests}
	for try := 1; len(b.requests) > 0 && try <= most; try++ {
		b.last = b.last || try == most
		b = b.send(s.context(patience))
	}
}

// A batch is one sending to a node.
type batch struct {
	*sender
	requests []*request
	source   bool // send scripts with their source
	last     bool // a broken connection is final
}

// send sends the batch, and returns what is to be sent once more.
func (b *batch) send(ctx context.Context) batch {
	n := b.node
	clock := n.locker.clock
	start := clock.Now() // before the first byte leaves: the earliest expiry counts
	cmds := b.build(start)
	if len(cmds) == 0 {
		return batch{}
	}
	replies, err := n.do(ctx, cmds)
	now := clock.Recent()
	if err == nil {
		n.measured(now.Sub(start))
		return b.read(replies, nil, false, now)
	}
	broken := ctx.Err() == nil && !b.last
	if !broken {
		err = n.explain(ctx, err)
		n.fails(err)
	}
	b.giveUp()
	return b.read(replies, err, broken, now)
}

// build gathers the commands, and drops the requests that need not be sent any more.
func (b *batch) build(start clockdrift.Instant) []driver.Command {
	cmds := b.cmds[:0]
	kept, needless := b.requests[:0], []*request(nil)
	for _, r := range b.requests {
		if !r.op.leave(r, start) {
			needless = append(needless, r)
			continue
		}
		kept = append(kept, r)
		for _, cmd := range r.op.cmds {
			if b.source {
				cmd = scripts.WithSource(cmd)
			}
			cmds = append(cmds, cmd)
		}
	}
	b.requests = kept
	b.cmds = cmds
	b.node.finish(needless, nil)
	return cmds
}

// read gives the replies to the requests, and err to those that have none. It returns
// those that are to be sent once more: all without a reply if the connection is
// broken, and those whose script the node does not know.
func (b *batch) read(replies []driver.Reply, err error, broken bool, now clockdrift.Instant) batch {
	again := batch{sender: b.sender, last: b.last || broken, source: b.source}
	finals := b.requests[:0]
	for _, r := range b.requests {
		r.reply = nil
		if count := len(r.op.cmds); len(replies) >= count {
			r.reply, replies = replies[:count], replies[count:]
		} else {
			replies = nil // the rest is unknown
		}
		switch unknown := lacksScript(r.reply); {
		case r.reply == nil && broken, unknown && !b.source:
			r.op.heard(r, err, now, false)
			again.requests = append(again.requests, r)
			again.source = again.source || unknown
		default:
			finals = append(finals, r)
		}
	}
	b.node.settle(finals, err, now)
	return again
}

func lacksScript(replies []driver.Reply) bool {
	for _, reply := range replies {
		if reply.Kind == driver.Failure && strings.HasPrefix(reply.Str, "NOSCRIPT") {
			return true
		}
	}
	return false
}

// explain words a failed batch for the user. The context's own errors are left out:
// a user who looks for them means the context of the call.
func (n *node) explain(ctx context.Context, err error) error {
	switch {
	case n.locker.life.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		if neverSent(err) {
			return driver.NotSent(&silence{n.locker.timeout})
		}
		return &silence{n.locker.timeout}
	}
	return advised(err)
}

// do calls the driver, and holds it to its contract: replies beyond the commands are
// dropped, missing ones are an error, and so is a panic.
func (n *node) do(ctx context.Context, cmds []driver.Command) (replies []driver.Reply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			replies, err = nil, fmt.Errorf("the driver panicked: %v", cause)
		}
	}()
	replies, err = n.driver.Do(ctx, cmds)
	if len(replies) > len(cmds) {
		replies = replies[:len(cmds)]
	}
	if err == nil && len(replies) < len(cmds) {
		err = fmt.Errorf("the driver returned %d replies to %d commands", len(replies), len(cmds))
	}
	return replies, err
}

func neverSent(err error) bool { return errors.Is(err, driver.ErrNotSent) }
