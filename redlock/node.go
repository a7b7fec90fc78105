package redlock

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A node is one master with its queue. All requests go through the queue; senders
// take what has gathered there and send it as one batch, so that while one batch is
// out the next one fills.
type node struct {
	locker *Locker
	index  int
	name   string
	driver driver.Driver

	mu      sync.Mutex
	wake    sync.Cond // senders wait here
	queue   []*request
	ages    ageList
	senders int
	idle    int  // of them
	out     int  // batches
	asking  bool // one of them is the question what the node is
	window  window
	closed  bool
	health  health
}

func newNode(l *Locker, index int, n driver.Node) *node {
	made := &node{locker: l, index: index, name: n.Name, driver: n.Driver}
	made.wake.L = &made.mu
	made.ages.expire = made.expire
	return made
}

// errBusy fails what a node that does not answer has no room for.
var errBusy = errors.New("too many operations wait for this node already")

// maxWaiting bounds what waits for a node that has stopped answering.
const maxWaiting = 1024

// submit takes r in. It may fail it at once: see [request.due] and [health].
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
	n.ages.add(r, n.locker.clock)
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
		return n.health.cause
	case n.health.state == down && len(n.queue) >= maxWaiting:
		return fmt.Errorf("%w: %w", errBusy, n.health.cause)
	}
	return nil
}

// enqueue puts r, which is at the front of its lane, in the queue for the next batch.
// n.mu is held.
func (n *node) enqueue(r *request) {
	r.stage, r.ahead = queued, true
	n.queue = append(n.queue, r)
	n.summon()
}

// summon gets a sender for what is in the queue, if one may send now. n.mu is held.
func (n *node) summon() {
	switch {
	case !n.ready():
	case n.idle > 0:
		n.wake.Signal()
	case n.senders < maxWindow:
		n.senders++
		n.locker.work.Go(n.send)
	}
}

// ready reports whether a sender has something to do. While the node's health is in
// question one batch goes out, the one that asks. n.mu is held.
func (n *node) ready() bool {
	if n.health.state != up {
		return len(n.queue) > 0 && !n.asking && n.out < maxWindow
	}
	return len(n.queue) > 0 && n.out < n.window.size()
}

// measured notes the round trip of a batch.
func (n *node) measured(trip time.Duration) {
	n.mu.Lock()
	n.window.note(trip)
	n.mu.Unlock()
}

// send is the life of a sender: it takes what has gathered, sends it, and waits for
// more, until the node is closed.
func (n *node) send() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		for !n.ready() {
			if n.closed {
				n.senders--
				return
			}
			n.idle++
			n.wake.Wait()
			n.idle--
		}
		if n.health.resting(n.locker.clock.Now()) {
			n.fail(n.health.cause)
			continue
		}
		known := n.health.state == up
		n.out++
		n.asking = !known
		n.mu.Unlock()
		if known {
			runtime.Gosched() // callers that are ready get on board
			n.sendBatch()
		} else {
			n.contact()
		}
		n.mu.Lock()
		n.out--
		n.asking = n.asking && known
	}
}

// maxBatch is the most requests in one batch.
const maxBatch = 1000

// take removes the next batch from the queue. Those that ran out of time there are
// left out.
func (n *node) take() []*request {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := min(len(n.queue), maxBatch)
	batch := make([]*request, 0, count)
	for _, r := range n.queue[:count] {
		if r.stage == queued {
			r.stage = sending
			batch = append(batch, r)
		}
	}
	if count == len(n.queue) {
		clear(n.queue)
		n.queue = n.queue[:0]
	} else {
		n.queue = append([]*request(nil), n.queue[count:]...)
		n.summon()
	}
	return batch
}

// fail fails all that is in the queue. n.mu is held, but not all the time.
func (n *node) fail(cause error) {
	queue := n.queue
	n.queue = nil
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

// settle gives requests that were sent their replies, or err where they have none.
func (n *node) settle(rs []*request, err error, now clockdrift.Instant) {
	rs, late := n.retire(rs)
	for _, r := range rs {
		r.op.heard(r, err, now, true)
	}
	for _, r := range late {
		r.op.heard(r, err, now, false)
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
		n.ages.remove(r)
		fresh = append(fresh, r)
	}
	return fresh, late
}

// pass lets those go ahead who stand behind the requests, which have their votes, in
// their lanes. A request that ran out of time before its turn came is nobody's front:
// it is stepped over.
func (n *node) pass(rs []*request) {
	n.mu.Lock()
	var stranded []*request
	for _, r := range rs {
		if !r.ahead {
			continue
		}
		next := r.behind
		for next != nil && next.stage == final {
			next = next.behind
		}
		switch {
		case next == nil:
			r.op.lane.last[n.index] = nil
		case n.closed:
			next.ahead = true
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

// expire fails the requests whose time is up.
func (n *node) expire() {
	now := n.locker.clock.Now()
	n.mu.Lock()
	var late []*request
	silent := false
	for r := n.ages.oldest; r != nil && r.due <= now; r = n.ages.oldest {
		n.ages.remove(r)
		// A lease that is so short that it leaves the node little time says nothing
		// about the node.
		silent = silent || r.stage == sending && r.due.Sub(r.op.asked) >= n.locker.timeout
		r.stage = final
		late = append(late, r)
	}
	n.ages.arm(n.locker.clock)
	n.mu.Unlock()
	for _, r := range late {
		r.op.vote(r, Failed, &silence{r.due.Sub(r.op.asked)}, now)
	}
	n.pass(late)
	if silent {
		n.fails(&silence{n.locker.timeout})
	}
}

// close makes the node's senders end once their batches are back.
func (n *node) close() {
	n.mu.Lock()
	n.closed = true
	n.wake.Broadcast()
	n.mu.Unlock()
	n.finish(n.take(), ErrClosed)
}

// silence is a node that gave no answer in time. It does not match the context's
// errors: they speak of the caller's context.
type silence struct{ after time.Duration }

func (e *silence) Error() string {
	return fmt.Sprintf("no answer within %v: is the node up, and the way to it?", e.after)
}
