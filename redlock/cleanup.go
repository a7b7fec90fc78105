package redlock

import (
	"cmp"
	"slices"
	"sync"
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

// deletable reports whether the claim's token may be deleted. A token of the user's own may
// only after the release of a lock that was held, while this Locker refuses to use the token
// again. At any other time a retry may have it: what a failed attempt or a late extension has
// set belongs to that retry, or to the TTL.
func (c *claim) deletable(now clockdrift.Instant) bool {
	return !c.own || c.locker.spent.has(c.token, now)
}

// clear takes the claim's token away wherever it is or may come to be. It does not
// wait, and does not hang on anybody's context.
func (c *claim) clear() {
	if !c.deletable(c.locker.clock.Now()) {
		return
	}
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

// abandon lets the nodes be cleaned of a lost lock's token, soon. claim.mu is held.
func (c *claim) abandon() {
	if !c.deletable(c.locker.clock.Now()) {
		return
	}
	for _, n := range c.locker.nodes {
		c.owe(n)
	}
	c.weigh()
}

// settle looks at what the release r has left at its node, and arranges for the next
// try if the token is still there or may still appear. claim.mu is held.
func (c *claim) settle(r *request, now clockdrift.Instant) {
	t := &c.traces[r.node.index]
	if t.clean() && !c.keeps {
		return
	}
	if r.answer != Failed {
		t.outlasted(r.node.reborn(), r.start)
	}
	if c.remains(t, now) {
		c.owe(r.node)
	}
	c.weigh()
}

// remains reports whether the node with the trace t still has to be cleaned, and forgets the
// trace if it has not. claim.mu is held.
func (c *claim) remains(t *trace, now clockdrift.Instant) bool {
	t.outlive(now, c.ttl)
	if !c.deletable(now) {
		t.forget()
	}
	return !t.clean()
}

// owe puts the claim on the node's list of clean-ups, unless there is nothing to clean.
// claim.mu is held.
func (c *claim) owe(n *node) {
	t := &c.traces[n.index]
	if t.owed || t.clean() {
		return
	}
	if t.owed = n.cleanups.add(c, t.pause(c.ttl)); !t.owed {
		t.forget()
	}
}

// The pauses between the tries of a clean-up double from the first to the last. Where only a
// lost command is waited for, the last one grows with the TTL, or each would cost a long
// lease thousands of tries.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	waitShare  = 20 // of the TTL
)

// pause is the time to the next try.
func (t *trace) pause(ttl time.Duration) time.Duration {
	most := lastPause
	if t.gone() {
		most = max(most, ttl/waitShare)
	}
	pause := most
	if t.tries < 32 {
		pause = min(most, firstPause<<t.tries)
		t.tries++
	}
	return pause
}

// weigh tells [Locker.Close] whether it has to wait for the claim: while clean-ups are owed
// to so many nodes that nobody else can have the key. What a minority still has keeps
// nobody out, and ends by its TTL. claim.mu is held.
func (c *claim) weigh() {
	owed, gone := false, 0
	for i := range c.traces {
		t := &c.traces[i]
		owed = owed || t.owed
		if t.gone() {
			gone++
		}
	}
	keeps := owed && gone < c.locker.quorum
	if keeps == c.keeps {
		return
	}
	c.keeps = keeps
	if keeps {
		c.locker.lanes.owe(+1)
	} else {
		c.locker.lanes.owe(-1)
	}
}

// cleanups are the claims whose token a node still has to be cleaned of: one list and one
// timer for each node. While the node is down they are parked: one of them asks the node
// now and then whether it is up again, and what has expired is dropped.
type cleanups struct {
	node *node

	mu      sync.Mutex // may be taken with a claim's, not the other way round
	list    []cleanup
	timer   *time.Timer
	armed   bool
	fires   clockdrift.Instant // when the timer does, if armed
	stopped bool
}

// A cleanup is a claim that is tried again when it is due.
type cleanup struct {
	claim *claim
	due   clockdrift.Instant
}

// maxParked bounds the clean-ups of a node that is down. What is left out keeps the key at this
// one node for a TTL at most.
const maxParked = 1 << 14

// add puts c in the list, to be tried after the pause. It reports false if there is no room.
// c.mu is held.
func (cs *cleanups) add(c *claim, pause time.Duration) bool {
	up := cs.node.up()
	if !up {
		pause = max(pause, lastPause)
	}
	now := c.locker.clock.Now()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !up && len(cs.list) >= maxParked {
		return false
	}
	cs.list = append(cs.list, cleanup{c, now.Add(pause)})
	cs.arm(pause, now)
	return true
}

// arm lets the timer fire after the pause, or before. cs.mu is held.
func (cs *cleanups) arm(pause time.Duration, now clockdrift.Instant) {
	pause = max(pause, firstPause) // so that one timer serves many
	fires := now.Add(pause)
	if cs.stopped || cs.armed && cs.fires <= fires {
		return
	}
	cs.armed, cs.fires = true, fires
	if cs.timer == nil {
		cs.timer = time.AfterFunc(pause, func() { cs.node.locker.work.start(cs.try) })
	} else {
		cs.timer.Reset(pause)
	}
}

// try sends the clean-ups that are due: a batch of them, or one if the node is down.
func (cs *cleanups) try() {
	l := cs.node.locker
	cs.mu.Lock()
	list := cs.list
	cs.list, cs.armed = nil, false
	cs.mu.Unlock()

	up, most, pause := cs.node.up(), maxBatch, firstPause
	if !up {
		most, pause = 1, lastPause
	}
	now := l.clock.Now()
	var due []*claim
	rest := list[:0]
	for i, d := range list {
		if up && len(due) == most {
			rest = append(rest, list[i:]...)
			break
		}
		tries := d.due <= now && len(due) < most
		switch {
		case !d.claim.stays(cs.node, now, tries):
		case tries:
			due = append(due, d.claim)
		default:
			rest = append(rest, d)
		}
	}
	clear(list[len(rest):])
	cs.putBack(rest, pause, now)
	for _, c := range due {
		c.toRelease(new(operation)).ask(l.nodes[cs.node.index:cs.node.index+1], 1)
	}
}

// stays reports whether the claim's clean-up at the node is still owed. It leaves the list if
// it is not, or is about to be tried.
func (c *claim) stays(n *node, now clockdrift.Instant, tries bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.traces[n.index]
	stays := c.remains(t, now) && (c.keeps || !c.locker.closed())
	if t.owed = stays && !tries; !stays {
		c.weigh()
	}
	return stays
}

// putBack puts clean-ups that were not tried in the list again. The next try comes after the
// pause, or when the first of them is due.
func (cs *cleanups) putBack(rest []cleanup, pause time.Duration, now clockdrift.Instant) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.list = append(rest, cs.list...)
	if len(rest) == 0 {
		return
	}
	first := slices.MinFunc(rest, func(a, b cleanup) int { return cmp.Compare(a.due, b.due) })
	cs.arm(max(pause, first.due.Sub(now)), now)
}

// all returns the claims in the list.
func (cs *cleanups) all() (claims []*claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, d := range cs.list {
		claims = append(claims, d.claim)
	}
	return claims
}

// stop lets no more tries begin.
func (cs *cleanups) stop() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.stopped = true
	if cs.timer != nil {
		cs.timer.Stop()
	}
}
