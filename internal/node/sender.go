package node

import (
	"context"
	"runtime"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A sender sends the requests of a channel in batches.
type sender struct {
	node    *Node
	channel *channel
	// Left by a batch for the next one.
	requests []*Request
	finals   []*Request
	buffer   protocol.Buffer
	sending  gate.Sending
	ctx      context.Context //nolint:containedctx // see [sender.context]
	cancel   context.CancelFunc
	ends     time.Time // ctx
}

// context returns a context that ends when a batch has had its time, or up to a quarter later: a context
// serves many batches, which saves the timer and memory of one for each. The requests themselves fail in
// time, whatever the driver does.
func (s *sender) context(patience time.Duration) context.Context {
	slack := patience / 4
	now := time.Now()
	left := s.ends.Sub(now)
	if s.ctx == nil || left < patience || left > patience+slack {
		s.giveUp()
		s.ends = now.Add(patience + slack)
		s.ctx, s.cancel = context.WithDeadline(s.node.set.Life, s.ends)
	}
	return s.ctx
}

// giveUp ends what a failed batch left with the driver, which may still read the commands.
func (s *sender) giveUp() {
	if s.cancel != nil {
		s.cancel()
	}
	s.ctx, s.cancel = nil, nil
	s.buffer.Drop()
}

// serve is the life of a sender, until the node is closed, or [channel.dismiss] makes it end.
func (c *channel) serve() {
	n := c.node
	s := sender{node: n, channel: c}
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		for c.calls == 0 && !c.ready() {
			if n.closed || c.dismissed {
				c.senders--
				s.giveUp()
				return
			}
			c.idle++
			c.wake.Wait()
			c.idle--
		}
		c.calls, c.dismissed = max(0, c.calls-1), false
		now := n.set.Clock.Now()
		if n.health.coolsDown(now) {
			n.fail(&cooldownError{n.health.cause})
			continue
		}
		known := n.health.state == up
		c.out++
		n.probing = !known
		queued, yields := c.queue.len(), now >= c.yields
		if known && (n.nature.dialect.Scriptless || n.nature.lacked) {
			n.relearn()
		}
		n.mu.Unlock()
		if known {
			if yields {
				c.coalesce(queued)
			}
			s.send(s.take(now))
			clear(s.requests) // whose locks would live on
			clear(s.finals)
			s.buffer.Clear()
		} else {
			n.probe()
		}
		n.mu.Lock()
		c.out--
		n.probing = n.probing && known
	}
}

// maxYields bounds how often a sender lets other goroutines go first; longYield bounds how long. Beside
// goroutines that compute, each yield takes 10 ms for each of them: after a yield longer than longYield
// there are none for noYields times its length.
const (
	maxYields = 16
	longYield = 5 * time.Millisecond
	noYields  = 20
)

// coalesce waits for callers that are ready to join the batch. Queued is the queue's length before a yield;
// coalesce yields while the queue grows.
func (c *channel) coalesce(queued int) {
	for range maxYields {
		before := queued
		runtime.Gosched()
		c.node.mu.Lock()
		queued = c.queue.len()
		c.node.mu.Unlock()
		if queued <= before {
			return
		}
	}
}

// MaxBatch is the most requests in one batch.
const MaxBatch = 1000

// take removes the next batch from the queue. Since is the time before [channel.coalesce]. Requests that ran
// out of time in the queue are left out.
func (s *sender) take(since clockdrift.Instant) []*Request {
	n, c := s.node, s.channel
	now := n.set.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if took := now.Sub(since); took > longYield {
		c.yields = now.Add(noYields * took)
	}
	taken := c.queue.take(s.requests[:0])
	if c.queue.len() > 0 {
		c.call()
	}
	s.requests = taken
	batch := taken[:0]
	for _, r := range taken {
		if r.stage == queued {
			r.stage = sending
			// It has waited long, and the node not begun. An extension gets a node's full time: the delay
			// was our own.
			if r.Ends != 0 || r.due.Sub(now) < c.least(r) {
				c.deadlines.remove(r)
				c.postpone(r, now, r.Patience())
			}
			batch = append(batch, r)
		}
	}
	return batch
}

// fail fails all requests in the queues. n.mu is held, but not all the time.
func (n *Node) fail(cause error) {
	var failed []*Request
	for i := range n.channels {
		for _, r := range n.channels[i].queue.all() {
			if r.stage == queued {
				failed = append(failed, r)
			}
		}
	}
	n.mu.Unlock()
	n.finish(failed, cause)
	n.mu.Lock()
}

// finish ends requests that were not sent: by err, or because their answers are not needed.
func (n *Node) finish(rs []*Request, err error) {
	if len(rs) == 0 {
		return
	}
	now := n.set.Clock.Now()
	rs, _ = n.retire(rs)
	for _, r := range rs {
		r.Question.Unanswered(r, err, now)
	}
	n.pass(rs)
}

// settle gives sent requests their replies, or err to those without one. Doubt is why grants are no votes.
func (n *Node) settle(rs []*Request, err, doubt error, now clockdrift.Instant) {
	rs, late := n.retire(rs)
	for _, r := range rs {
		r.Question.Answered(r, err, doubt, now, true)
	}
	for _, r := range late {
		r.Question.Answered(r, err, doubt, now, false)
	}
	n.pass(rs)
}

// retire takes requests out of the books. It returns those without a final answer so far, which want one;
// all of them, which want a pass; and those that had run out of time.
func (n *Node) retire(rs []*Request) (open, late []*Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	open = rs[:0]
	for _, r := range rs {
		if r.stage == final {
			late = append(late, r)
			continue
		}
		r.stage = final
		n.channel(r).deadlines.remove(r)
		open = append(open, r)
	}
	return open, late
}

// pass lets the next requests in the queues of the answered requests' keys go ahead.
func (n *Node) pass(rs []*Request) {
	n.mu.Lock()
	var stranded []*Request
	for _, r := range rs {
		stranded = append(stranded, n.withdraw(r)...)
	}
	n.mu.Unlock()
	for _, r := range rs {
		r.Question.Passed(r)
	}
	n.finish(stranded, fault.ErrClosed)
}
