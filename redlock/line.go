package redlock

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

// A line is one way to a node. All requests go through its queue; senders take what has
// gathered there and send it as one batch, so that while one batch is out the next one
// fills.
//
// Votes that wait for a disk or for replicas have a line of their own, or a release
// would wait behind them: for a second, where a disk is synced every second.
type line struct {
	node    *node
	proves  bool          // its grants are votes only with a proof: see [durability]
	timeout time.Duration // of a request with the default TTL

	// Guarded by node.mu.
	wake    sync.Cond // senders wait here
	queue   backlog
	ages    ages
	senders int
	idle    int // of them
	calls   int // to senders that have not taken anything yet
	out     int // batches
	window  window
}

// A backlog is the requests that are to leave next. In a batch that has not room for all of
// them, extensions go first, the one whose lease ends first before the others: they cannot
// wait. The rest keeps a quarter of the room, or releases would starve.
type backlog struct {
	extensions leaseHeap
	others     []*request
}

func (q *backlog) len() int { return len(q.extensions) + len(q.others) }

func (q *backlog) push(r *request) {
	if r.op.task.prolongs {
		heap.Push(&q.extensions, r)
	} else {
		q.others = append(q.others, r)
	}
}

// take appends a batch of requests to taken, and removes them.
func (q *backlog) take(taken []*request) []*request {
	first := len(q.extensions)
	if q.len() > maxBatch {
		first = min(first, max(maxBatch-maxBatch/4, maxBatch-len(q.others)))
	}
	for range first {
		taken = append(taken, heap.Pop(&q.extensions).(*request))
	}
	rest := min(len(q.others), maxBatch-first)
	taken = append(taken, q.others[:rest]...)
	q.others = slices.Delete(q.others, 0, rest)
	return taken
}

// key is that of a request that leaves next, or nil.
func (q *backlog) key() any {
	switch {
	case len(q.extensions) > 0:
		return q.extensions[0].op.claim.keyArg
	case len(q.others) > 0:
		return q.others[0].op.claim.keyArg
	}
	return nil
}

// all removes and returns all requests.
func (q *backlog) all() []*request {
	all := slices.Concat(q.others, q.extensions)
	*q = backlog{}
	return all
}

// A leaseHeap is a heap of extensions by the end of their leases.
type leaseHeap []*request

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].op.ends < h[j].op.ends }
func (h leaseHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *leaseHeap) Push(r any)        { *h = append(*h, r.(*request)) }

func (h *leaseHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return r
}

// maxProofs is how many batches of votes that wait may be out: while one waits for the
// disk the next one waits to be written.
const maxProofs = 2

func newLines(n *node) []line {
	lines := []line{{node: n, timeout: n.locker.timeout}}
	if d := &n.locker.durability; d.command != "" {
		lines = append(lines, line{node: n, proves: true, timeout: n.locker.timeout + d.timeout})
	}
	for i := range lines {
		lines[i].wake.L = &n.mu
		lines[i].ages.expire = lines[i].expire
	}
	return lines
}

// line is the line of the requests of op.
func (n *node) line(op *operation) *line {
	if op.task.votes {
		return &n.lines[len(n.lines)-1]
	}
	return &n.lines[0]
}

// waiting is how many requests are in the queues. n.mu is held.
func (n *node) waiting() (count int) {
	for i := range n.lines {
		count += n.lines[i].queue.len()
	}
	return count
}

// called reports whether a sender is about to take something. n.mu is held.
func (n *node) called() bool {
	for i := range n.lines {
		if n.lines[i].calls > 0 {
			return true
		}
	}
	return false
}

// proving reports whether votes are out that wait for a disk or for replicas. n.mu is held.
func (n *node) proving() bool {
	last := &n.lines[len(n.lines)-1]
	return last.proves && last.out > 0
}

// summon gets a sender for what is in the queue, if one may send now. node.mu is held.
func (ln *line) summon() {
	if !ln.ready() {
		return
	}
	ln.calls++
	switch {
	case ln.idle >= ln.calls:
		ln.wake.Signal()
	case ln.senders < maxWindow && ln.node.locker.work.start(ln.serve):
		ln.senders++
	}
}

// ready reports whether there is work for one more sender. While the node's health
// is in question there is one batch, the one that asks. node.mu is held.
func (ln *line) ready() bool {
	switch n := ln.node; {
	case ln.queue.len() == 0:
		return false
	case n.health.state != up:
		return !n.called() && !n.asking && ln.out < maxWindow
	default:
		return ln.out+ln.calls < ln.room()
	}
}

// room is how many batches may be out. How far the node is says nothing of its disk.
func (ln *line) room() int {
	if ln.proves {
		return maxProofs
	}
	return ln.window.size()
}

// least is the time that a request of op must have left when it is sent. One whose vote
// waits needs all of it, for so long the node may take.
func (ln *line) least(op *operation) time.Duration {
	if ln.proves {
		return op.patience()
	}
	return op.patience() / 2
}
