package node

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A channel is a way to a node. All requests go through its queue. Senders send everything in the queue as
// one batch: while a batch is out, the next one fills.
//
// Votes that wait for a disk or for replicas have a channel of their own. Behind them a release would wait
// for a second where the disk is synced every second.
type channel struct {
	node    *Node
	durable bool          // its votes wait
	timeout time.Duration // of a request with the default TTL

	// Guarded by node.mu.
	wake      sync.Cond // senders wait here
	queue     queue
	deadlines deadlines
	senders   int
	idle      int         // of them
	dismissed bool        // idle senders end, unless there is work first
	idleness  *time.Timer // calls dismiss, while there are senders
	calls     int         // to senders that have taken nothing yet
	out       int         // batches
	window    window
	yields    clockdrift.Instant // until then senders let nobody go first: see [channel.coalesce]
}

// MaxDurable is how many batches of waiting votes may be out: while one waits for the disk, the next waits
// to be written.
const MaxDurable = 2

func newChannels(n *Node) []channel {
	channels := []channel{{node: n, timeout: n.set.Timeout}}
	if waits := n.set.Durability.Wait(); waits > 0 {
		channels = append(channels, channel{node: n, durable: true, timeout: n.set.Timeout + waits})
	}
	for i := range channels {
		c := &channels[i]
		c.wake.L = &n.mu
		c.deadlines.expire = c.expire
		c.idleness = time.AfterFunc(idleLife, c.dismiss)
		c.idleness.Stop() // until there is a sender
	}
	return channels
}

// dismiss makes idle senders end where no batch has come back for a while: a Locker that nobody uses has no
// goroutines, even if it is not closed.
func (c *channel) dismiss() {
	n := c.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set.Clock.Now().Sub(n.answered) >= idleLife {
		c.dismissed = true
		c.wake.Broadcast()
	}
	if c.senders > 0 {
		c.idleness.Reset(idleLife)
	}
}

const idleLife = time.Second

// channel returns the channel for r's question.
func (n *Node) channel(r *Request) *channel {
	if r.Op.Votes {
		return &n.channels[len(n.channels)-1]
	}
	return &n.channels[0]
}

// pending is how many requests are in the queues. n.mu is held.
func (n *Node) pending() (count int) {
	for i := range n.channels {
		count += n.channels[i].queue.len()
	}
	return count
}

// called reports whether a sender is about to take something. n.mu is held.
func (n *Node) called() bool {
	for i := range n.channels {
		if n.channels[i].calls > 0 {
			return true
		}
	}
	return false
}

// syncing reports whether votes are out that wait for a disk or for replicas. n.mu is held.
func (n *Node) syncing() bool {
	last := &n.channels[len(n.channels)-1]
	return last.durable && last.out > 0
}

// call gets a sender for the queue, if another batch may leave now. node.mu is held.
func (c *channel) call() {
	if !c.ready() {
		return
	}
	c.calls++
	switch {
	case c.idle >= c.calls:
		c.wake.Signal()
	case c.senders < MaxWindow && c.node.set.Go(c.serve):
		if c.senders++; c.senders == 1 {
			c.idleness.Reset(idleLife)
		}
	}
}

// ready reports whether there is work for one more sender. While the node's health is in question there is
// one batch, the probe. node.mu is held.
func (c *channel) ready() bool {
	switch n := c.node; {
	case c.queue.len() == 0:
		return false
	case n.health.state != up:
		return !n.called() && !n.probing && c.out < MaxWindow
	default:
		return c.out+c.calls < c.room()
	}
}

// room is how many batches may be out. How far the node is says nothing of its disk.
func (c *channel) room() int {
	if c.durable {
		return MaxDurable
	}
	room := c.window.size(windowStep)
	if room > 1 && c.node.spare() {
		room = c.window.size(spareStep)
	}
	return room
}

// least is the time that r must have left when a sender takes it: half of its patience, and more if the node
// is farther away. A vote that waits for a disk needs all of its patience. node.mu is held.
func (c *channel) least(r *Request) time.Duration {
	if c.durable {
		return r.Patience()
	}
	return min(r.Patience(), max(r.Patience()/2, c.window.trip()+r.Patience()/4))
}

// A queue is the requests that leave next. Where a batch has no room for all of them, extensions go first,
// by the end of their leases: they cannot wait. The rest keeps a quarter of the room, or releases would
// starve.
type queue struct {
	extensions Heap[*Request] // by the end of their leases
	others     placeList      // of requests that are in front of the queues of all their keys
}

func (q *queue) len() int { return len(q.extensions) + q.others.count }

func (q *queue) push(r *Request) {
	if r.Op.Prolongs {
		heap.Push(&q.extensions, r)
	} else {
		r.place.Request = r
		q.others.push(&r.place)
	}
}

// remove takes r out of the queue, if r is there.
func (q *queue) remove(r *Request) {
	switch {
	case r.heap > 0:
		heap.Remove(&q.extensions, r.heap-1)
	case r.place.list == &q.others:
		r.place.leave()
	}
}

// take appends a batch of requests to taken, and removes them.
func (q *queue) take(taken []*Request) []*Request {
	first := len(q.extensions)
	if q.len() > MaxBatch {
		first = min(first, max(MaxBatch-MaxBatch/4, MaxBatch-q.others.count))
	}
	for range first {
		taken = append(taken, heap.Pop(&q.extensions).(*Request))
	}
	for range min(q.others.count, MaxBatch-first) {
		taken = append(taken, q.others.pop().Request)
	}
	return taken
}

// key is the key of a request that leaves next, or nil.
func (q *queue) key() any {
	switch {
	case len(q.extensions) > 0:
		return q.extensions[0].Key
	case q.others.count > 0:
		return q.others.first.Key
	}
	return nil
}

// all removes and returns all requests.
func (q *queue) all() (all []*Request) {
	for p := q.others.pop(); p != nil; p = q.others.pop() {
		all = append(all, p.Request)
	}
	for _, r := range q.extensions {
		r.heap = 0
		all = append(all, r)
	}
	q.extensions = nil
	return all
}

// Less orders extensions by the end of their leases: see [Heap].
func (r *Request) Less(other *Request) bool { return r.Ends < other.Ends }

// HeapIndex is the index of r among extensions: see [Heap].
func (r *Request) HeapIndex() *int { return &r.heap }

// A Heap implements heap.Interface. Its elements know their indices, counted from 1 (0: in no heap), and so
// can be moved or removed from anywhere.
type Heap[E interface {
	Less(other E) bool
	HeapIndex() *int
}] []E

func (h Heap[E]) Len() int           { return len(h) }
func (h Heap[E]) Less(i, j int) bool { return h[i].Less(h[j]) }

func (h Heap[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].HeapIndex(), *h[j].HeapIndex() = i+1, j+1
}

// Push appends an element, for heap.Push.
func (h *Heap[E]) Push(e any) {
	*h = append(*h, e.(E))
	*(*h)[len(*h)-1].HeapIndex() = len(*h)
}

// Pop removes the last element, for heap.Pop.
func (h *Heap[E]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	*e.HeapIndex() = 0
	return e
}
