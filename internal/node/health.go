package node

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/subscription"
)

// A health says whether a node answers. A probe comes first at a new node, and after each failure;
// operations wait for the probe, for a time-out of their own at most. After a failed probe the node has a
// cooldown: operations fail at once, with the cause.
type health struct {
	state  state
	cause  error              // of the last failure; nil: the node is up
	met    bool               // the node was up before
	until  clockdrift.Instant // the end of the cooldown
	probed clockdrift.Instant // when a probe last failed
	since  clockdrift.Instant // the start of the present state
	shut   clockdrift.Instant // since when a gate keeps the node from voting; 0: none does
	reborn clockdrift.Instant // when another run_id than before was first seen
	anew   bool               // the next probe goes over a new connection: see [Node.renew]
	renews clockdrift.Instant // when the connections were last given up
}

type state uint8

const (
	fresh state = iota // never asked
	up
	down
)

// coolsDown reports whether the node is not to be asked now.
func (h *health) coolsDown(now clockdrift.Instant) bool { return h.state == down && now < h.until }

// press cuts the cooldown for an extension, whose lease would end meanwhile.
func (h *health) press() { h.until = min(h.until, h.probed.Add(MinCooldown)) }

// The bounds of a cooldown. It grows with the cost of the failed probe: a refused connection is tried again
// soon, a silent node, for which operations have waited, seldom.
const (
	MinCooldown    = 10 * time.Millisecond
	MaxCooldown    = time.Second
	cooldownFactor = 4
)

// turn notes the node's state.
func (h *health) turn(to state, cause error, now clockdrift.Instant) {
	if h.state != to {
		h.since = now
	}
	h.state, h.cause = to, cause
}

// coolDown begins a cooldown after a failed probe.
func (h *health) coolDown(now clockdrift.Instant, cost time.Duration) {
	h.until = now.Add(min(max(cost*cooldownFactor, MinCooldown), MaxCooldown))
	h.probed = now
}

// stranger reports whether the node was never up: then client and server may also disagree about TLS, where
// a client gets no answer or a reset connection.
func (n *Node) stranger() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.health.met
}

// fails takes the node out until the next probe, which the next operation starts.
func (n *Node) fails(cause error) {
	n.mu.Lock()
	if n.health.state == up {
		n.note(fault.NodeDown, cause)
		n.health.turn(down, cause, n.set.Clock.Now())
		n.health.anew = true
		n.reach.Store(0)
	}
	n.mu.Unlock()
	n.Emit()
}

// Up reports whether the node answers.
func (n *Node) Up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.health.state == up
}

// DownFor is why the node is down; nil: it is up.
func (n *Node) DownFor() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.health.state == up {
		return nil
	}
	return n.health.cause
}

// note queues an event, before the node's state changes. Failures by the Locker's Close are no events. n.mu
// is held.
func (n *Node) note(kind fault.Kind, err error) {
	if errors.Is(err, fault.ErrClosed) {
		return
	}
	h, now := &n.health, n.set.Clock.Now()
	e := fault.Event{Kind: kind, Node: n.name, Err: err, Time: time.Now()}
	switch {
	case kind == fault.NodeUp && h.state == down, kind == fault.NodeDown && h.state == up:
		e.Lasted = now.Sub(h.since)
	case kind == fault.NodeQuarantined && h.shut == 0:
		h.shut = max(now, 1)
	case kind == fault.NodeAdmitted:
		e.Lasted, h.shut, h.since = now.Sub(h.shut), 0, now
	}
	n.events = append(n.events, e)
}

// Note queues an event, for [Node.Emit] to tell.
func (n *Node) Note(kind fault.Kind, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(kind, err)
}

// Emit tells the user the queued events, in order and one at a time.
func (n *Node) Emit() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.events) > 0 && !n.telling {
		e := n.events[0]
		n.events, n.telling = n.events[1:], true
		n.mu.Unlock()
		n.set.Emit(e)
		n.mu.Lock()
		n.telling = false
	}
}

// manner is how the node takes releases and extensions.
func (n *Node) manner() protocol.Manner {
	n.mu.Lock()
	defer n.mu.Unlock()
	return protocol.NewManner(n.nature.dialect, n.nature.cluster, n.nature.muted, n.nature.unasked || n.nature.listeners > 0, n.nature.apart)
}

// OnNews notes the news in a batch's replies, about which the next probe asks again, and tells the user where
// the node refuses our announcements of releases.
func (n *Node) OnNews(news protocol.News) {
	if news == (protocol.News{}) {
		return
	}
	n.mu.Lock()
	is := &n.nature
	if news.Counted {
		is.listeners, is.unasked = news.Listeners, false
	}
	if news.NoDeletion { // another server took the node's place unnoticed
		is.dialect.Deletes = protocol.ByScript
	}
	is.apart, is.dialect.Lineless = is.apart || news.Apart, is.dialect.Lineless || news.Lineless
	if news.Muted && !is.muted {
		is.muted = true
		n.note(fault.NodeMuted, subscription.ErrForbidden)
	}
	n.mu.Unlock()
	if news.Muted {
		n.Emit()
	}
}

// onUnsubscribed tells the user that waiters poll this node, unless the node is down.
func (n *Node) onUnsubscribed(err error) bool {
	if !n.Up() {
		return false // another failure may be told
	}
	n.Note(fault.NodeMuted, err)
	n.Emit()
	return true
}
