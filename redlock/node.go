package redlock

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A node is one master with the lines to it.
type node struct {
	locker *Locker
	index  int
	name   string
	driver driver.Driver
	ear    ear
	server atomic.Uint32 // which one it is: a hash of its run_id; 0: not known

	cleanups cleanups

	mu      sync.Mutex
	lines   []line // the last is that of the votes: see [node.line]
	asking  bool   // one of the batches that are out is the question what the node is
	apart   bool   // releases go one by one
	cluster bool   // it is a Redis Cluster
	muted   bool   // it does not let us announce a release
	dialect dialect
	unasked bool // nobody has asked yet how many listen
	// listeners is how many Lockers waited when a release was last announced; ours counts.
	listeners int64
	closed    bool
	health    health
	answered  clockdrift.Instant // the last batch
	clock     nodeClock
	guard     guard
	fit       fitness
	news      []Event // not told yet
	telling   bool
}

func newNode(l *Locker, index int, n driver.Node) *node {
	made := &node{locker: l, index: index, name: n.Name, driver: n.Driver}
	made.lines = newLines(made)
	made.clock.estimator, _ = clockdrift.NewEstimator(clockdrift.DefaultRate) // whose rate is valid
	if o := &l.options; o.clockGuard > 0 {
		made.clock.estimator.Guard(o.acquire.ttl, l.sitOut(o.clockGuard), o.drift)
	}
	made.ear.node, made.cleanups.node = made, made
	made.ear.subscriber, _ = n.Driver.(driver.Subscriber)
	return made
}

// errBusy fails what a node that does not answer has no room for.
var errBusy = errors.New("too many operations wait for this node already")

// maxWaiting bounds what waits for a node that has stopped answering.
const maxWaiting = 1024

// submit takes r in. It may fail it at once: see [operation.due] and [health].
func (n *node) submit(r *request) {
	now := r.op.asked
	n.mu.Lock()
	err := n.refuses(now)
	if err != nil {
		r.stage = final
		n.mu.Unlock()
		r.op.vote(r, Failed, err, now)
		n.pass([]*request{r})
		return
	}
	n.line(r.op).ages.add(r, n.locker.clock)
	switch o := &r.op.lane.at[n.index]; {
	case o.front == nil:
		n.enqueue(r)
	case o.yields(r):
		o.front.stage, o.front.ahead = waiting, false // the queue drops it when it comes to it
		o.tries.unpop(o.front)
		n.enqueue(r)
	default:
		o.add(r)
	}
	n.mu.Unlock()
}

// refuses says why the node takes nothing in. n.mu is held.
func (n *node) refuses(now clockdrift.Instant) error {
	switch {
	case n.closed:
		return ErrClosed
	case n.health.resting(now):
		return &restingError{n.health.cause}
	case n.health.state == down && n.waiting() >= maxWaiting:
		return fmt.Errorf("%w: %w", errBusy, n.health.cause)
	}
	return nil
}

// restingError is the fate of a request at a node that was not asked, because it has
// just failed.
type restingError struct{ cause error }

func (e *restingError) Error() string { return "not asked again yet: " + e.cause.Error() }
func (e *restingError) Unwrap() error { return e.cause }

// enqueue puts r, which is at the front of its lane, in the queue for the next batch.
// n.mu is held.
func (n *node) enqueue(r *request) {
	ln := n.line(r.op)
	r.op.lane.at[n.index].front = r
	r.stage, r.ahead = queued, true
	ln.queue.push(r)
	ln.summon()
}

// expire fails the requests whose time is up.
func (ln *line) expire() {
	n := ln.node
	now := n.locker.clock.Now()
	n.mu.Lock()
	var late, sent []*request
	held := now.Sub(ln.ages.fires) // so long this process, or its machine, was held up itself
	for r := ln.ages.oldest(); r != nil && r.due <= now; r = ln.ages.oldest() {
		ln.ages.remove(r)
		switch {
		case n.advances(r, now):
			ln.postpone(r, now, r.op.patience())
			continue
		case r.stage == sending && held > r.op.patience()/4:
			ln.postpone(r, now, min(held, r.op.patience())) // the answer may be here, unread
			continue
		}
		// A lease that is so short that it leaves the node little time says nothing
		// about the node.
		if r.stage == sending && r.op.patience() >= ln.timeout {
			sent = append(sent, r)
		}
		r.stage = final
		late = append(late, r)
	}
	ln.ages.arm(n.locker.clock)
	first := !n.health.met
	n.mu.Unlock()
	for _, r := range late {
		r.op.vote(r, Failed, &silence{r.op.patience(), first}, now)
	}
	// Nor does the time that a request has waited here before it left.
	silent := slices.ContainsFunc(sent, func(r *request) bool { return r.out(now) >= ln.timeout-ln.timeout/8 })
	n.pass(late)
	if silent {
		n.fails(&silence{ln.timeout, false})
	}
}

// advances reports whether r has only waited for others so far, whom the node has gone on
// to answer: then it is this process that is slow. Or it stands in its lane, and votes are
// out that may take their time. Or it is an extension whose lease still runs: only what was
// sent can tell that the node is silent. n.mu is held.
func (n *node) advances(r *request, now clockdrift.Instant) bool {
	if r.stage == sending || n.health.state != up {
		return false
	}
	return now < r.op.ends || n.answered > r.due.Add(-r.op.patience()) || r.stage == waiting && n.proving()
}

// postpone gives r, which is not in the list, some more time. n.mu is held.
func (ln *line) postpone(r *request, now clockdrift.Instant, time time.Duration) {
	r.due = now.Add(time)
	ln.ages.add(r, ln.node.locker.clock)
}

// close makes the node's senders end once their batches are back.
func (n *node) close() {
	n.mu.Lock()
	n.closed = true
	n.endWatch()
	if n.clock.timer != nil {
		n.clock.timer.Stop()
	}
	for i := range n.lines {
		n.lines[i].wake.Broadcast()
	}
	n.fail(ErrClosed)
	n.mu.Unlock()
}

// silence is a node that gave no answer in time. It does not match the context's
// errors: they speak of the caller's context.
type silence struct {
	after time.Duration
	first bool // the node has never answered
}

func (e *silence) Error() string {
	text := fmt.Sprintf("no answer within %v: is the node up, and the way to it?", e.after)
	if e.first {
		text += " And does it speak TLS at this port (rediss://), or not (redis://)?"
	}
	return text
}
