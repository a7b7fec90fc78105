package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// toRelease makes op the operation that deletes the claim's token.
func (c *claim) toRelease(op *operation) *operation {
	c.mu.Lock()
	op.task, op.claim, op.ttl, op.loud = release, c, c.ttl, c.loud
	c.mu.Unlock()
	return op
}

// clear takes the claim's token away wherever it is or may come to be. It does not
// wait, and does not hang on anybody's context.
func (c *claim) clear() {
	var nodes []*node
	c.mu.Lock()
	for i := range c.traces {
		if !c.traces[i].clean() {
			nodes = append(nodes, c.locker.nodes[i])
		}
	}
	c.mu.Unlock()
	if len(nodes) > 0 {
		c.toRelease(new(operation)).ask(nodes, len(nodes))
	}
}

// The pauses between the tries of a clean-up double from the first to the last.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// settle looks at what the release r has left at its node, and arranges for the next
// try if the token is still there or may still appear. claim.mu is held.
func (c *claim) settle(r *request, now clockdrift.Instant) {
	n := r.node
	t := &c.traces[n.index]
	if t.owed || t.clean() {
		return
	}
	answers, reborn := n.life()
	t.outlive(now, answers, c.ttl)
	if r.answer != Failed {
		t.outlasted(reborn, r.start)
	}
	if t.clean() {
		return
	}
	t.owed = true
	t.pause = min(max(2*t.pause, firstPause), lastPause)
	c.locker.debts.add(t.pause, c.key, n.name, func() {
		c.mu.Lock()
		t.owed = false
		c.mu.Unlock()
		c.toRelease(new(operation)).ask(c.locker.nodes[n.index:n.index+1], 1)
	})
}
