package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// send sends requests as one batch and gives every reply to its request.
//
// A few things are sent once more, within the same time-out: what needs a script that
// the node does not know, with the script's source; releases that the node does not
// take together, one by one, or not by the command that it had; what is prolonged
// without a script, as its second half (see [dialect.hold]); and all that a broken
// connection left unanswered, for an idle connection that the server has closed fails at
// its next use. That is safe because a request that is run twice finds its own token.
func (s *sender) send(requests []*request) {
	patience := s.line.timeout
	for _, r := range requests {
		patience = max(patience, r.op.patience())
	}
	b := batch{sender: s, requests: requests, manner: s.node.manner()}
	for len(b.requests) > 0 || len(b.untold) > 0 {
		b = b.send(s.context(patience))
	}
}

// A batch is one sending to a node.
type batch struct {
	*sender
	manner
	requests []*request // at the end stand extensions, loud releases and quiet ones, which go in groups
	extended int        // extensions
	noisy    int        // releases
	quiet    int
	source   bool       // send scripts with their source
	votes    bool       // some of the requests ask for votes
	exact    bool       // what is decided by its replies is decided for good
	last     bool       // a broken connection is final
	untold   []*request // releases of the batch before that are to be announced
	proof    proof
	tail     tail
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
	cmds = b.appendTail(cmds, start)
	replies, err := n.do(ctx, cmds)
	now := clock.Recent()
	if b.exact || b.tail.guarded || b.tail.time > 0 {
		now = clock.Fresh()
	}
	replies = b.takeTail(replies, start, now)
	if err == nil {
		b.tail.unfit = cmp.Or(b.tail.unfit, b.line.measured(now.Sub(start), now))
		if b.tail.guarded && b.tail.blurred && now.Sub(start) <= b.line.timeout/2 {
			b.tail.clock, err = n.readClock(ctx, 1)
			b.tail.clock, now = cmp.Or(err, b.tail.clock), clock.Fresh()
		}
		return b.read(replies, nil, false, now)
	}
	broken := ctx.Err() == nil && !b.last
	if !broken {
		err = n.explain(ctx, err, b.line.timeout)
		n.fails(err)
	}
	b.giveUp()
	return b.read(replies, err, broken, now)
}

// build gathers the commands, and drops the requests that need not be sent any more.
func (b *batch) build(start clockdrift.Instant) []driver.Command {
	cmds := b.cmds[:0]
	kept, extended, noisy, quiet := b.requests[:0], b.sender.extended[:0], b.sender.noisy[:0], b.sender.quiet[:0]
	var needless, untagged []*request
	for _, r := range b.requests {
		switch {
		case r.op.fence != 0 && b.always && !r.op.claim.tagged:
			untagged = append(untagged, r)
		case !r.op.leave(r, start):
			needless = append(needless, r)
		case r.op.task == release && r.op.loud && b.loud:
			noisy = append(noisy, r)
		case r.op.task == release:
			quiet = append(quiet, r)
		case b.extends > 1 && r.groupable():
			extended = append(extended, r)
			b.votes, b.exact = true, true
		default:
			kept = append(kept, r)
			b.votes = b.votes || r.op.task.votes
			cmds = b.ask(cmds, r)
			b.exact = b.exact || r.op.decidesForGood()
		}
	}
	kept = append(append(append(kept, extended...), noisy...), quiet...)
	b.requests, b.extended, b.noisy, b.quiet = kept, len(extended), len(noisy), len(quiet)
	args := b.args[:0]
	for g := range slices.Chunk(group(extended), b.extends) {
		cmds, args = b.extend(cmds, args, g)
	}
	for i, releases := range [...]group{noisy, quiet} {
		for g := range slices.Chunk(releases, b.group) {
			cmds, args = b.release(cmds, args, g, i == 0)
		}
	}
	cmds = b.mend(b.tell(cmds))
	b.cmds, b.args = cmds, args
	b.sender.extended, b.sender.noisy, b.sender.quiet = extended, noisy, quiet
	if b.source {
		for i := range cmds {
			cmds[i] = scripts.WithSource(cmds[i])
		}
	}
	b.node.finish(needless, nil)
	b.node.finish(untagged, errUntagged)
	if len(kept) == 0 && len(b.untold) == 0 {
		return nil
	}
	return cmds
}

// read gives the replies to the requests, and err to those that have none. It returns
// those that are to be sent once more.
func (b *batch) read(replies []driver.Reply, err error, broken bool, now clockdrift.Instant) batch {
	again := batch{sender: b.sender, manner: b.manner, last: b.last || broken, source: b.source, proof: b.proof}
	finals := b.requests[:0]
	next := func(count int) (said []driver.Reply) {
		if len(replies) < count {
			replies = nil // the rest is unknown
			return nil
		}
		said, replies = replies[:count], replies[count:]
		return said
	}
	shown, doubt := b.judge(err, now)
	doubt = cmp.Or(doubt, b.proof.fault)
	for rest := b.requests; len(rest) > 0; {
		g := b.front(rest)
		rest = rest[len(g):]
		said, half := b.hear(g[0], next(b.replies(g)))
		if half {
			g[0].half.doubt = doubt
		}
		if shown != nil {
			for _, r := range g {
				r.shown = shown
			}
		}
		unknown := lacksScript(said)
		whole := g.share(said)
		if said != nil && g[0].op.loud && b.deletes == byScript && said[0].Kind == driver.Integer {
			b.node.announced(said[0])
		}
		switch {
		case said == nil && broken && !g[0].op.task.once, unknown && !b.source, half:
			for _, r := range g {
				r.op.heard(r, err, doubt, now, false)
			}
			again.requests = append(again.requests, g...)
			again.source = again.source || unknown
		case g[0].op.task == release && b.deletes.disowned(said):
			again.requests = append(again.requests, g[0])
			again.deletes = byScript
			b.node.forget()
		case !whole:
			again.requests = append(again.requests, g...)
			again.group, again.extends = 1, 1
			b.node.ungroup(said[0])
			for _, r := range g {
				r.op.heard(r, err, doubt, now, false)
			}
		default:
			finals = append(finals, g...)
		}
	}
	again.untold = b.told(next)
	if broken && len(replies) == 0 {
		again.untold = append(again.untold, b.untold...)
	}
	if len(again.untold) > 0 {
		b.node.locker.lanes.owe(+1) // Close waits for announcements
	}
	if len(b.untold) > 0 {
		b.node.locker.lanes.owe(-1)
	}
	b.node.settle(finals, err, doubt, now)
	return again
}

// front returns the first requests of rest that share replies. Of the batch's
// requests, rest is what is left.
func (b *batch) front(rest []*request) group {
	switch releases := b.noisy + b.quiet; {
	case len(rest) > b.extended+releases:
		return rest[:1]
	case len(rest) > releases:
		return rest[:min(b.extends, len(rest)-releases)]
	case len(rest) > b.quiet:
		return rest[:min(b.group, len(rest)-b.quiet)]
	}
	return rest[:min(b.group, len(rest))]
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
func (n *node) explain(ctx context.Context, err error, timeout time.Duration) error {
	switch {
	case n.locker.life.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		if neverSent(err) {
			return driver.NotSent(&silence{timeout, n.stranger()})
		}
		return &silence{timeout, n.stranger()}
	case n.stranger() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return &refusal{err, "the server has hung up at the first command: does it speak TLS at this port (rediss://)?"}
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
