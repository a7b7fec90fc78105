// Package node is a Redis-compatible master as its clients see it: order by key, batches and how many are
// out, health, nature, clock and subscriptions. It does not know what a lock is: it takes requests, and
// gives each of them its replies.
package node

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/subscription"
)

// A Node is a master with the channels to it.
type Node struct {
	Index  int
	Driver driver.Driver
	Server atomic.Uint32 // a hash of the server's run_id; 0: not known
	reach  atomic.Int64  // the distance, while the node answers and may vote; or 0

	set   *Set
	name  string
	gates *gate.Gates
	trims trims
	*subscription.Subscriber

	mu       sync.Mutex // guards all below
	channels []channel  // the last one takes the votes: see [Node.channel]
	behind   int        // requests in the queues of their keys, behind others
	probing  bool       // one of the batches that are out is the probe
	closed   bool
	answered clockdrift.Instant // the last batch
	health   health
	nature   nature
	clock    clock
	events   []fault.Event // not told yet
	telling  bool
}

// newNode returns a node of the set.
func newNode(s *Set, index int, n driver.Node) *Node {
	made := &Node{Index: index, Driver: n.Driver, set: s, name: n.Name}
	made.trims.node = made
	made.clock.estimator, _ = nodeclock.New(nodeclock.DefaultRate) // whose rate is valid
	var guard *gate.Clock
	if s.ClockGuard > 0 {
		guard = &gate.Clock{Longest: s.ClockGuard, Drift: s.Drift}
		made.clock.estimator.Guard(s.TTL, gate.SitOut(s.ClockGuard, s.Drift), s.Drift)
	}
	made.gates = gate.New(made, s.Durability, s.Restarts, guard)
	made.channels = newChannels(made)
	c := subscription.Config{
		Node: index, Life: s.Life, Timeout: s.Timeout, Connect: FirstProbe * s.Timeout,
		Go: s.Go, Jitter: s.Jitter, Failed: made.onUnsubscribed,
	}
	c.Driver, _ = n.Driver.(driver.Subscriber)
	made.Subscriber = &subscription.Subscriber{Config: c}
	return made
}

// Name is the node's name, by the user.
func (n *Node) Name() string { return n.name }

// Gates are the node's gates.
func (n *Node) Gates() *gate.Gates { return n.gates }

// errBusy fails requests that a silent node has no room for.
var errBusy = errors.New("too many operations wait for this node already")

// maxPending bounds the queue of a silent node. Extensions are bounded by the held locks: see
// [Node.refuses].
const maxPending = 1024

// Submit takes r in, and reports whether r waits behind another request for its keys. Where the node is down
// or closed, r may fail at once: see [health].
func (n *Node) Submit(r *Request) (behind bool) {
	now := r.Asked
	n.mu.Lock()
	err := n.refuses(r, now)
	if err != nil {
		r.stage = final
		n.mu.Unlock()
		r.Question.Unanswered(r, err, now)
		n.pass([]*Request{r})
		return false
	}
	n.channel(r).deadlines.add(r, n.set.Clock)
	n.enter(r)
	behind = r.stage == waiting
	n.mu.Unlock()
	return behind
}

// Recall ends r before it leaves: its answer is no longer needed.
func (n *Node) Recall(r *Request) {
	n.mu.Lock()
	if r.place.Request == nil || r.stage != waiting && r.stage != queued {
		n.mu.Unlock()
		return
	}
	r.stage = final
	n.channel(r).deadlines.remove(r)
	n.mu.Unlock()
	r.Question.Unanswered(r, nil, n.set.Clock.Now())
	n.pass([]*Request{r})
}

// refuses says why the node does not take r in. An extension cuts the cooldown, and may wait for the probe
// beyond maxPending: a process with many locks has many extensions at once, and each refusal fails a
// renewal. n.mu is held.
func (n *Node) refuses(r *Request, now clockdrift.Instant) error {
	if r.Op.Prolongs {
		n.health.press()
	}
	switch {
	case n.closed:
		return fault.ErrClosed
	case n.health.coolsDown(now):
		return &cooldownError{n.health.cause}
	case n.health.state == down && n.pending() >= maxPending && !r.Op.Prolongs:
		return fmt.Errorf("%w: %w", errBusy, n.health.cause)
	}
	return nil
}

// A cooldownError is the fate of a request during a cooldown: the node was not asked.
type cooldownError struct{ cause error }

func (e *cooldownError) Error() string { return "not asked again yet: " + e.cause.Error() }
func (e *cooldownError) Unwrap() error { return e.cause }

// A probeError is the fate of a request that waited for the probe of a silent node, as a rule for the
// request's whole patience.
type probeError struct{ silence *fault.SilenceError }

func (e *probeError) Error() string { return "its probe got " + e.silence.Error() }
func (e *probeError) Unwrap() error { return e.silence }

// AskNow ends the cooldown: the next request asks the node.
func (n *Node) AskNow() {
	n.mu.Lock()
	n.health.until = 0
	n.mu.Unlock()
}

// enqueue puts r in the queue for the next batch. n.mu is held.
func (n *Node) enqueue(r *Request) {
	c := n.channel(r)
	r.stage = queued
	c.queue.push(r)
	c.call()
}

// turns is how often all other goroutines run before requests fail: a reply may wait to be read, to be
// passed on and to be counted, each in a goroutine of its own, on a machine where many compute.
const turns = 4

// expire fails the requests whose time is up.
func (c *channel) expire() {
	n := c.node
	now := n.set.Clock.Now()
	for range turns {
		runtime.Gosched()
	}
	n.mu.Lock()
	var late, sent []*Request
	held := now.Sub(c.deadlines.fires) // the time for which this process, or its machine, stood still
	for r := c.deadlines.oldest(); r != nil && r.due <= now; r = c.deadlines.oldest() {
		c.deadlines.remove(r)
		switch {
		case n.advances(r, now):
			c.postpone(r, now, r.Patience())
			continue
		case r.stage == sending && held > r.Patience()/4:
			c.postpone(r, now, min(held, r.Patience())) // the answer may be here, unread
			continue
		}
		// A short lease that leaves the node little time says nothing about the node.
		if r.stage == sending && r.Patience() >= c.timeout {
			sent = append(sent, r)
		}
		r.stage = final
		late = append(late, r)
	}
	c.deadlines.arm(n.set.Clock)
	first := !n.health.met
	n.mu.Unlock()
	for _, r := range late {
		r.Question.Unanswered(r, &fault.SilenceError{After: r.Patience(), First: first}, now)
	}
	// Nor does a request's time in our own queue.
	silent := slices.ContainsFunc(sent, func(r *Request) bool { return r.Question.Out(r, now) >= c.timeout-c.timeout/8 })
	n.pass(late)
	if silent {
		n.fails(&fault.SilenceError{After: c.timeout})
	}
}

// advances reports whether an overdue r gets more time. Its time ran out in our own queue while the node
// answered other requests: this process is slow. Or r is in its key's queue behind durable votes, which take
// their time. Or r extends a lease that still runs: only a sent request can prove the node silent. n.mu is
// held.
func (n *Node) advances(r *Request, now clockdrift.Instant) bool {
	if r.stage == sending || n.health.state != up {
		return false
	}
	return now < r.Ends || n.answered > r.due.Add(-r.Patience()) || r.stage == waiting && n.syncing()
}

// postpone gives r, which is in no list, more time. n.mu is held.
func (c *channel) postpone(r *Request, now clockdrift.Instant, time time.Duration) {
	r.due = now.Add(time)
	c.deadlines.add(r, c.node.set.Clock)
}

// Close makes the node's senders end once their batches are back.
func (n *Node) Close() {
	n.gates.Close()
	n.mu.Lock()
	n.closed = true
	if n.clock.timer != nil {
		n.clock.timer.Stop()
	}
	for i := range n.channels {
		n.channels[i].wake.Broadcast()
	}
	n.fail(fault.ErrClosed)
	n.mu.Unlock()
}

// StopTimers ends the timers that would call the closed node.
func (n *Node) StopTimers() {
	for i := range n.channels {
		n.channels[i].deadlines.stop()
		n.channels[i].idleness.Stop()
	}
}

// Trip is the node's distance: its smallest round trip of late; 0: not known.
func (n *Node) Trip() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.channels[0].window.trip()
}

// reached notes the distance of a node that has answered. n.mu is held.
func (n *Node) reached() {
	reach := n.channels[0].window.trip()
	if n.nature.unfit != nil || n.health.shut != 0 {
		reach = 0
	}
	n.reach.Store(int64(reach))
}

// spare reports whether a quorum of other nodes is nearer than half of the way to this node: then no caller
// waits for its answers. n.mu is held.
func (n *Node) spare() bool {
	half, nearer := int64(n.channels[0].window.trip()/2), 0
	for _, other := range n.set.Nodes {
		if reach := other.reach.Load(); 0 < reach && reach <= half {
			nearer++
		}
	}
	return nearer >= n.set.Quorum
}

// Others reports whether another Locker listened at the node's last announcement of a release.
func (n *Node) Others() bool {
	n.mu.Lock()
	listeners := n.nature.listeners
	n.mu.Unlock()
	return listeners > n.Own()
}

// Announces reports whether the node can tell its listeners: it is up, announces releases, and is a single
// server.
func (n *Node) Announces() bool {
	fails := n.Fails()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.health.state == up && !n.nature.muted && !n.nature.cluster && !fails
}

// HandsOver reports whether the node can give a key from one token to another.
func (n *Node) HandsOver() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nature.dialect.HandsOver()
}

// probeAgain asks the node beside its queues for its fitness, over a new connection if anew.
func (n *Node) probeAgain(anew bool) {
	sent := n.set.Clock.Now()
	if anew {
		n.renew(sent)
	}
	if replies, err := n.Beside(protocol.AskFitness); err == nil {
		_ = n.OnFitness(replies, sent) // OnFitness tells the node, too
	}
}

// Left is a node's unfinished work: nothing, when the node is idle.
type Left struct {
	Requests int  // in queues, those of keys included, and batches
	Waits    bool // for an answer
	Armed    bool // the timer of the requests' deadlines
	Senders  int  // these stay, up to MaxWindow
	Events   int  // not told yet
	Channels int  // listened to, or to be looked at
	Listens  bool
}

// Left returns the node's unfinished work.
func (n *Node) Left() (l Left) {
	l.Channels, l.Listens = n.Subscriber.Left()
	n.mu.Lock()
	defer n.mu.Unlock()
	l.Events, l.Requests = len(n.events), n.behind
	for i := range n.channels {
		c := &n.channels[i]
		l.Requests += c.queue.len() + c.out + c.calls
		l.Waits = l.Waits || c.deadlines.oldest() != nil
		l.Armed = l.Armed || c.deadlines.armed
		l.Senders = max(l.Senders, c.senders)
	}
	return l
}

// Pending is how many requests wait in the queues.
func (n *Node) Pending() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pending()
}

// Dialect is how the node does the work of scripts.
func (n *Node) Dialect() protocol.Dialect {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nature.dialect
}
