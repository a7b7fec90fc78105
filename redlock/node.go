package redlock

import (
	"errors"
	"fmt"
	"sync"
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
	news      []Event // not told yet
	telling   bool
}

func newNode(l *Locker, index int, n driver.Node) *node {
	made := &node{locker: l, index: index, name: n.Name, driver: n.Driver}
	made.lines = newLines(made)
	made.clock.estimator, _ = clockdrift.NewEstimator(clockdrift.DefaultRate) // whose rate is valid
	made.ear.node = made
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
	if last := r.op.lane.last[n.index]; last != nil {
		last.behind = r
	} else {
		n.enqueue(r)
	}
	r.op.lane.last[n.index] = r
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
	r.stage, r.ahead = queued, true
	ln.queue = append(ln.queue, r)
	ln.summon()
}

// expire fails the requests whose time is up.
func (ln *line) expire() {
	n := ln.node
	now := n.locker.clock.Now()
	n.mu.Lock()
	var late []*request
	silent := false
	for r := ln.ages.oldest; r != nil && r.due <= now; r = ln.ages.oldest {
		ln.ages.remove(r)
		if n.advances(r) {
			ln.postpone(r, now)
			continue
		}
		// A lease that is so short that it leaves the node little time says nothing
		// about the node.
		silent = silent || r.stage == sending && r.op.patience() >= ln.timeout
		r.stage = final
		late = append(late, r)
	}
	ln.ages.arm(n.locker.clock)
	n.mu.Unlock()
	for _, r := range late {
		r.op.vote(r, Failed, &silence{r.op.patience()}, now)
	}
	n.pass(late)
	if silent {
		n.fails(&silence{ln.timeout})
	}
}

// advances reports whether r has only waited for others so far, whom the node has gone on
// to answer: then it is this process that is slow. Or it stands in its lane, and votes are
// out that may take their time. n.mu is held.
func (n *node) advances(r *request) bool {
	if r.stage == sending || n.health.state != up {
		return false
	}
	return n.answered > r.due.Add(-r.op.patience()) || r.stage == waiting && n.proving()
}

// postpone gives r, which is not in the list, its whole time once more. n.mu is held.
func (ln *line) postpone(r *request, now clockdrift.Instant) {
	r.due = now.Add(r.op.patience())
	ln.ages.add(r, ln.node.locker.clock)
}

// close makes the node's senders end once their batches are back.
func (n *node) close() {
	n.mu.Lock()
	n.closed = true
	n.admitted()
	for i := range n.lines {
		n.lines[i].wake.Broadcast()
	}
	n.fail(ErrClosed)
	n.mu.Unlock()
}

// silence is a node that gave no answer in time. It does not match the context's
// errors: they speak of the caller's context.
type silence struct{ after time.Duration }

func (e *silence) Error() string {
	return fmt.Sprintf("no answer within %v: is the node up, and the way to it?", e.after)
}
