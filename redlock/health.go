package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A health is what is known of a node. A new node, and one that has failed, is first
// asked what it is; operations wait for that, for a time-out of their own at most. A
// node that fails the question rests: operations fail at once, with the cause.
type health struct {
	state  state
	cause  error              // why it is down
	met    bool               // it was up before
	rests  clockdrift.Instant // until then it is not asked again
	reborn clockdrift.Instant // when it was first seen with another run_id than before
}

type state uint8

const (
	fresh state = iota // never asked
	up
	down
)

// resting reports whether the node is not to be asked now.
func (h *health) resting(now clockdrift.Instant) bool { return h.state == down && now < h.rests }

// The bounds of a rest. It follows what the failed question cost, so that a refused
// connection is tried again soon, and a silent node, for which operations have
// waited, seldom.
const (
	minRest    = 10 * time.Millisecond
	maxRest    = time.Second
	restFactor = 4
)

// fail notes that the node does not answer, without a rest.
func (h *health) fail(cause error) { h.state, h.cause = down, cause }

// rest follows a question that failed at the cost of so much time.
func (h *health) rest(now clockdrift.Instant, cost time.Duration) {
	h.rests = now.Add(min(max(cost*restFactor, minRest), maxRest))
}

// unknown reports whether the node was never reached.
func (n *node) unknown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.health.state == fresh
}

// stranger reports whether the node was never up: then client and server may also disagree
// about TLS. What one says in it gets no answer from the other, or the connection is reset.
func (n *node) stranger() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.health.met
}

// fails takes the node out until it has said again what it is, which the next
// operation asks.
func (n *node) fails(cause error) {
	n.mu.Lock()
	was := n.health.state
	if was == up {
		n.health.fail(cause)
		n.news = append(n.news, Event{NodeDown, n.name, cause})
	}
	n.mu.Unlock()
	n.announce()
}

// reborn is when the node's server was started anew, as far as this Locker knows; 0: never.
func (n *node) reborn() clockdrift.Instant {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.health.reborn
}

// up reports whether the node answers.
func (n *node) up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.health.state == up
}

// announce tells the user what is new of the node, in order and one event at a time.
func (n *node) announce() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.news) > 0 && !n.telling {
		e := n.news[0]
		n.news, n.telling = n.news[1:], true
		n.mu.Unlock()
		n.locker.options.events(e)
		n.mu.Lock()
		n.telling = false
	}
}
