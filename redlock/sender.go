package redlock

import (
	"context"
	"runtime"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A sender takes what has gathered in a line, sends it, and waits for more.
type sender struct {
	node *node
	line *line
	// What the batch before leaves to the next one.
	requests     []*request
	extended     []*request // the extensions of requests that may share commands
	noisy, quiet []*request // the releases of requests
	cmds         []driver.Command
	args         []any           // of cmds
	ctx          context.Context //nolint:containedctx // see [sender.context]
	cancel       context.CancelFunc
	ends         time.Time // ctx
}

// context returns a context that ends when a batch has had its time, or up to a
// quarter later: so one serves many batches, and the timer and the memory of one for
// each are saved. The requests themselves fail in time, whatever the driver does.
func (s *sender) context(patience time.Duration) context.Context {
	slack := patience / 4
	now := time.Now()
	left := s.ends.Sub(now)
	if s.ctx == nil || left < patience || left > patience+slack {
		s.giveUp()
		s.ends = now.Add(patience + slack)
		s.ctx, s.cancel = context.WithDeadline(s.node.locker.life, s.ends)
	}
	return s.ctx
}

// giveUp ends what a failed batch may have left with the driver, which may still look
// at its commands.
func (s *sender) giveUp() {
	if s.cancel != nil {
		s.cancel()
	}
	s.ctx, s.cancel, s.cmds, s.args = nil, nil, nil, nil
}

// serve is the life of a sender, until the node is closed.
func (ln *line) serve() {
	n := ln.node
	s := sender{node: n, line: ln}
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		for ln.calls == 0 && !ln.ready() {
			if n.closed {
				ln.senders--
				s.giveUp()
				return
			}
			ln.idle++
			ln.wake.Wait()
			ln.idle--
		}
		ln.calls = max(0, ln.calls-1)
		if n.health.resting(n.locker.clock.Now()) {
			n.fail(n.health.cause)
			continue
		}
		known := n.health.state == up
		ln.out++
		n.asking = !known
		queued := ln.queue.len()
		n.mu.Unlock()
		if known {
			ln.board(queued)
			s.send(s.take())
			clear(s.requests) // whose locks would live on
			clear(s.extended)
			clear(s.noisy)
			clear(s.quiet)
			clear(s.cmds)
			clear(s.args)
		} else {
			n.contact()
		}
		n.mu.Lock()
		ln.out--
		n.asking = n.asking && known
	}
}

// maxYields bounds how often a sender lets others go first.
const maxYields = 16

// board lets callers that are ready get on board of the batch, for as long as they do:
// so many were in the queue before.
func (ln *line) board(queued int) {
	for range maxYields {
		before := queued
		runtime.Gosched()
		ln.node.mu.Lock()
		queued = ln.queue.len()
		ln.node.mu.Unlock()
		if queued <= before {
			return
		}
	}
}

// maxBatch is the most requests in one batch.
const maxBatch = 1000

// take removes the next batch from the queue. Those that ran out of time there are
// left out.
func (s *sender) take() []*request {
	n, ln := s.node, s.line
	now := n.locker.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := ln.queue.take(s.requests[:0])
	if ln.queue.len() > 0 {
		ln.summon()
	}
	s.requests = taken
	batch := taken[:0]
	for _, r := range taken {
		if r.stage == queued {
			r.stage = sending
			// It has waited long, and the node not begun. An extension gets all the time that
			// a node may take: what it has waited was our own delay.
			if r.op.ends != 0 || r.due.Sub(now) < ln.least(r.op) {
				ln.ages.remove(r)
				ln.postpone(r, now, r.op.patience())
			}
			batch = append(batch, r)
		}
	}
	return batch
}

// fail fails all that is in the queues. n.mu is held, but not all the time.
func (n *node) fail(cause error) {
	var queue []*request
	for i := range n.lines {
		for _, r := range n.lines[i].queue.all() {
			if r.stage == queued {
				queue = append(queue, r)
			}
		}
	}
	n.mu.Unlock()
	n.finish(queue, cause)
	n.mu.Lock()
}

// finish ends requests that were not sent: by err, or because there was no need.
func (n *node) finish(rs []*request, err error) {
	if len(rs) == 0 {
		return
	}
	now := n.locker.clock.Now()
	rs, _ = n.retire(rs)
	for _, r := range rs {
		if err != nil {
			r.op.vote(r, Failed, err, now)
		} else {
			answer, err := r.op.task.needless()
			r.op.vote(r, answer, err, now)
		}
	}
	n.pass(rs)
}

// settle gives requests that were sent their replies, or err where they have none. Doubt
// is why grants are no votes.
func (n *node) settle(rs []*request, err, doubt error, now clockdrift.Instant) {
	rs, late := n.retire(rs)
	for _, r := range rs {
		r.op.heard(r, err, doubt, now, true)
	}
	for _, r := range late {
		r.op.heard(r, err, doubt, now, false)
	}
	n.pass(rs)
}

// retire takes requests out of the books. It returns those that had no final answer
// before, each of which the caller owes a vote, and then all of them a pass; and
// those that had run out of time.
func (n *node) retire(rs []*request) (fresh, late []*request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fresh = rs[:0]
	for _, r := range rs {
		if r.stage == final {
			late = append(late, r)
			continue
		}
		r.stage = final
		n.line(r.op).ages.remove(r)
		fresh = append(fresh, r)
	}
	return fresh, late
}

// pass lets those go ahead who wait for the requests, which have their votes, in their
// lanes. A request that ran out of time before its turn came is nobody's front.
func (n *node) pass(rs []*request) {
	n.mu.Lock()
	var stranded []*request
	for _, r := range rs {
		if !r.ahead {
			continue
		}
		o := &r.op.lane.at[n.index]
		switch next := o.next(); {
		case next == nil:
			o.front = nil
		case n.closed:
			o.front, next.ahead = next, true
			stranded = append(stranded, next)
		default:
			n.enqueue(next)
		}
	}
	n.mu.Unlock()
	for _, r := range rs {
		if r.last {
			n.locker.lanes.leave(r.op.lane)
		}
	}
	n.finish(stranded, ErrClosed)
}
