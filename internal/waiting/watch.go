package waiting

import (
	"strconv"
	"strings"
	"sync"
)

// A KeyWatch listens at all nodes for the announcement that a key is free. Its news are that a
// quorum of the nodes lets it hear, upon which a try finds out what was missed, and that those
// which announced it, with those that a try found free, make a quorum. For one who stands in the
// key's line only the nodes count where nobody is before it.
type KeyWatch struct {
	host Host
	key  string
	name string // in the key's line; "": nobody of this process stands there
	News chan struct{}

	mu    sync.Mutex
	place int64 // in the key's line, of whoever stands there for this process; 0: nobody
	nodes []watchedNode
}

type watchedNode struct {
	subscribed bool
	free       bool // since the last try
	first      bool // nobody was before in the key's line, the last time
}

// NewKeyWatch starts a watch, whose news come by a channel with room for one.
func NewKeyWatch(h Host, key, name string, news chan struct{}) *KeyWatch {
	nodes, _ := h.Size()
	w := &KeyWatch{host: h, key: key, name: name, News: news, nodes: make([]watchedNode, nodes)}
	h.Listen(key, w)
	if name != "" {
		h.Listen(w.turn(), turnWatch{w})
	}
	return w
}

// End gives up the watch.
func (w *KeyWatch) End() {
	w.host.Unlisten(w.key, w)
	if w.name != "" {
		w.host.Unlisten(w.turn(), turnWatch{w})
	}
}

// turn is on what one who stands in the key's line is told that he is first there.
func (w *KeyWatch) turn() string { return w.key + " " + w.name }

// A turnWatch listens to that: see leave.lua for what he is told.
type turnWatch struct{ *KeyWatch }

// Arm begins to count the nodes that are free.
func (w *KeyWatch) Arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.nodes {
		w.nodes[i].free = false
	}
	select {
	case <-w.News:
	default:
	}
}

// found counts the nodes that a failed try has found free, and reports whether there is a quorum
// of such nodes now.
func (w *KeyWatch) found(try Try) bool {
	try.Free(func(node int) {
		w.mu.Lock()
		w.nodes[node].free = true
		w.mu.Unlock()
	})
	if w.name != "" {
		try.InFront(func(node int, first bool) {
			w.mu.Lock()
			w.nodes[node].first = first
			w.mu.Unlock()
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quorum(w.isFree)
}

// first reports whether nobody is before in the lines of a quorum of the nodes.
func (w *KeyWatch) first() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quorum(isFirst)
}

// stands notes at which place this process stands in line from now on. Whether it is first there is
// another question than at the place before.
func (w *KeyWatch) stands(place int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.place == place {
		return
	}
	w.place = place
	for i := range w.nodes {
		w.nodes[i].first = false
	}
}

func (w *KeyWatch) isFree(n watchedNode) bool { return n.free && (n.first || w.place == 0) }
func isFirst(n watchedNode) bool              { return n.first }
func isSubscribed(n watchedNode) bool         { return n.subscribed }

// quorum reports whether a quorum of the nodes is so. w.mu is held.
func (w *KeyWatch) quorum(is func(watchedNode) bool) bool {
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
func (w *KeyWatch) quorate() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quorum(isSubscribed)
}

// OnMessage notes that a node has announced the key.
func (w *KeyWatch) OnMessage(node int, _ string) {
	w.told(node, func(n *watchedNode) { n.free = true })
}

// OnMessage notes whether nobody is before in the line of a node, unless the place is one of before.
func (w turnWatch) OnMessage(node int, payload string) {
	text, what, _ := strings.Cut(payload, " ")
	place, err := strconv.ParseFloat(text, 64)
	w.told(node, func(n *watchedNode) {
		if err == nil && int64(place) == w.place {
			n.first, n.free = what != "behind", n.free || what == "free"
		}
	})
}

// told notes what a node has told.
func (w *KeyWatch) told(node int, note func(n *watchedNode)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.quorum(w.isFree)
	note(&w.nodes[node])
	if !before && w.quorum(w.isFree) {
		w.wake()
	}
}

// OnSubscribed notes whether announcements of a node arrive. It is news once those of a quorum do, for
// what was announced before is lost, and once it is not any more. Who stands in line is told by
// another channel.
func (w *KeyWatch) OnSubscribed(node int, subscribed bool) {
	if w.name == "" {
		w.subscribed(node, subscribed)
	}
}

// OnSubscribed is that of the other channel.
func (w turnWatch) OnSubscribed(node int, subscribed bool) { w.subscribed(node, subscribed) }

func (w *KeyWatch) subscribed(node int, subscribed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.quorum(isSubscribed)
	w.nodes[node].subscribed = subscribed
	if w.quorum(isSubscribed) != before {
		w.wake()
	}
}

func (w *KeyWatch) wake() {
	select {
	case w.News <- struct{}{}:
	default:
	}
}
