package waiting

import "sync"

// A keyWatch listens at all nodes for the announcement that a key is free. Its news are that a
// quorum of the nodes lets it hear, upon which a try finds out what was missed, and that those
// which announced it, with those that a try found free, make a quorum.
type keyWatch struct {
	host Host
	key  string
	news chan struct{}

	mu    sync.Mutex
	nodes []watchedNode
}

type watchedNode struct {
	subscribed bool
	free       bool // since the last try
}

// newKeyWatch starts a watch.
func newKeyWatch(h Host, key string) *keyWatch {
	nodes, _ := h.Size()
	w := &keyWatch{host: h, key: key, news: make(chan struct{}, 1), nodes: make([]watchedNode, nodes)}
	h.Listen(key, w)
	return w
}

// end gives up the watch.
func (w *keyWatch) end() { w.host.Unlisten(w.key, w) }

// arm begins to count the nodes that are free.
func (w *keyWatch) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.nodes {
		w.nodes[i].free = false
	}
	select {
	case <-w.news:
	default:
	}
}

// found counts the nodes that a failed try has found free, and reports whether there is a quorum
// of such nodes now.
func (w *keyWatch) found(try Try) bool {
	try.Free(func(node int) {
		w.mu.Lock()
		w.nodes[node].free = true
		w.mu.Unlock()
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quorum(isFree)
}

func isFree(n watchedNode) bool       { return n.free }
func isSubscribed(n watchedNode) bool { return n.subscribed }

// quorum reports whether a quorum of the nodes is so. w.mu is held.
func (w *keyWatch) quorum(is func(watchedNode) bool) bool {
	count := 0
	for _, n := range w.nodes {
		if is(n) {
			count++
		}
	}
	_, quorum := w.host.Size()
	return count >= quorum
}

// quorate reports whether an announcement would arrive.
func (w *keyWatch) quorate() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quorum(isSubscribed)
}

// OnMessage notes that a node has announced the key.
func (w *keyWatch) OnMessage(node int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.quorum(isFree)
	w.nodes[node].free = true
	if !before && w.quorum(isFree) {
		w.wake()
	}
}

// OnSubscribed notes whether announcements of a node arrive. It is news once those of a quorum do, for
// what was announced before is lost, and once it is not any more.
func (w *keyWatch) OnSubscribed(node int, subscribed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.quorum(isSubscribed)
	w.nodes[node].subscribed = subscribed
	if w.quorum(isSubscribed) != before {
		w.wake()
	}
}

func (w *keyWatch) wake() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}
