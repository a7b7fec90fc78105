package waiting

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A KeyWatch listens at all nodes for the announcement of a free key. It has news when a quorum of the nodes
// begins to be heard, for a try then finds what was missed; and when the nodes that announced the key, with
// the free nodes of the last try, make a quorum. With a ticket in the key's line, only nodes count where no
// ticket is before it.
type KeyWatch struct {
	lines    *Lines
	channels []string // the last one tells that the ticket is first in line, to watches that listen to it
	News     chan struct{}
	also     atomic.Bool // listens to the last channel: see [KeyWatch.inLine]

	mu        sync.Mutex
	rank      int64 // of this process's ticket in the key's line; 0: there is none
	firstOnly bool  // the waiter tries only where it is first
	reads     bool  // the waiter may have the key beside others
	nodes     []watchedNode
}

type watchedNode struct {
	hears []bool // by channel
	free  bool   // since the last try
	was   bool   // before the last try
	late  bool   // the node's news is from before the last try, which has not heard of the node
	first bool   // nobody was before in the key's line, the last time
}

// NewKeyWatch starts a watch. Its news come by a channel with room for one. Name is the Locker's name in the
// key's line.
func NewKeyWatch(ls *Lines, key, name string, news chan struct{}) *KeyWatch {
	channels := ls.Host.Channels(key)
	channels = append(channels, channels[len(channels)-1]+" "+name)
	w := &KeyWatch{lines: ls, channels: channels, News: news, nodes: make([]watchedNode, len(ls.Nodes))}
	for i := range w.nodes {
		w.nodes[i].hears = make([]bool, len(channels))
	}
	for i := range channels[1:] {
		w.listen(i)
	}
	return w
}

// listen begins to hear a channel at all nodes.
func (w *KeyWatch) listen(channel int) {
	for _, n := range w.lines.Nodes {
		n.Listen(w.channels[channel], ear{w, channel})
	}
}

// line is the last channel.
func (w *KeyWatch) line() int { return len(w.channels) - 1 }

// End gives up the watch.
func (w *KeyWatch) End() {
	for i, channel := range w.channels {
		for _, n := range w.lines.Nodes {
			n.Unlisten(channel, ear{w, i})
		}
	}
}

// An ear listens to a channel.
type ear struct {
	*KeyWatch
	channel int
}

// Arm begins to count free nodes.
func (w *KeyWatch) Arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.nodes {
		n := &w.nodes[i]
		n.was, n.free, n.late = n.free || n.late, false, false
	}
	select {
	case <-w.News:
	default:
	}
}

// free reports whether the key is free at a quorum of the nodes, as far as they have told.
func (w *KeyWatch) free() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quorum(w.isFree)
}

// found counts the free nodes of a failed try, and reports whether free nodes make a quorum now.
func (w *KeyWatch) found(try *acquire.Found) bool {
	also := w.also.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, at := range try.Nodes {
		n := &w.nodes[i]
		n.free, n.late = n.free || at.Free, at.Unheard && n.was
		if also && at.Said {
			n.first = at.First
		}
	}
	return w.quorum(w.isNews)
}

// first reports whether nobody is before in the lines of a quorum of the nodes.
func (w *KeyWatch) first() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quorum(isFirst)
}

// inLine notes the rank of this process's ticket from now on. What nodes said of another rank counts no
// more. Calls come one after another.
func (w *KeyWatch) inLine(rank int64, turns, reads bool) {
	if rank != 0 && w.also.CompareAndSwap(false, true) {
		w.listen(w.line())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.firstOnly, w.reads = turns, reads
	if w.rank == rank {
		return
	}
	w.rank = rank
	for i := range w.nodes {
		w.nodes[i].first = false
	}
}

// isNews reports whether the node has said since the last try that the key is free for this process.
func (w *KeyWatch) isNews(n watchedNode) bool {
	return n.free && (n.first || w.rank == 0 || !w.firstOnly)
}

func (w *KeyWatch) isFree(n watchedNode) bool {
	n.free = n.free || n.late
	return w.isNews(n)
}

func isFirst(n watchedNode) bool { return n.first }

// isSubscribed reports whether everything is heard that the node may tell.
func (w *KeyWatch) isSubscribed(n watchedNode) bool {
	return !slices.Contains(n.hears[:w.line()], false) && (n.hears[w.line()] || w.rank == 0)
}

// quorum reports whether a quorum of the nodes fulfils is. w.mu is held.
func (w *KeyWatch) quorum(is func(watchedNode) bool) bool {
	count := 0
	for _, n := range w.nodes {
		if is(n) {
			count++
		}
	}
	return count >= w.lines.Quorum
}

// quorate reports whether an announcement would arrive.
func (w *KeyWatch) quorate() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quorum(w.isSubscribed)
}

// OnMessage notes a node's message: the key is free, or no ticket is before this process's in its line,
// unless the message is about an earlier rank. See leave.lua. A message that readers may share the key is
// nothing for a writer, which waits for their end.
func (e ear) OnMessage(node int, payload string) {
	text, what, _ := strings.Cut(payload, " ")
	rank, err := strconv.ParseFloat(text, 64)
	if e.channel < e.line() {
		e.lines.Host.Heard(e.channel)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := &e.nodes[node]
	before := e.isNews(*n) || e.quorum(e.isNews)
	switch {
	case e.channel < e.line():
		n.free = n.free || payload != protocol.SharedNow || e.reads || e.rank == 0
	case err == nil && int64(rank) == e.rank:
		was := e.quorum(isFirst)
		if n.first, n.free = what != "behind", what == "free" || n.free && what != ""; was && !e.quorum(isFirst) {
			e.wake() // the ticket is to be left more often from now on: see [acquire.QuietLife]
		}
	}
	if !before && e.isNews(*n) && e.quorum(e.isFree) { // free nodes from before the last try are no news
		e.wake()
	}
}

// OnSubscribed notes whether announcements of a node arrive. News is when a quorum's begin to arrive, for
// earlier announcements are lost, and when they stop.
func (e ear) OnSubscribed(node int, subscribed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.quorum(e.isSubscribed)
	e.nodes[node].hears[e.channel] = subscribed
	if e.quorum(e.isSubscribed) != before {
		e.wake()
	}
}

func (w *KeyWatch) wake() {
	select {
	case w.News <- struct{}{}:
	default:
	}
}

// Watches are the watches of all keys of a waiter, with the same news; none: announcements were not waited
// for yet.
type watches []*KeyWatch

func (ws watches) each(do func(*KeyWatch)) {
	for _, k := range ws {
		do(k)
	}
}

func (ws watches) inLine(rank int64, turns, reads bool) {
	ws.each(func(k *KeyWatch) { k.inLine(rank, turns, reads) })
}

// found reports whether one of the keys is free at a quorum.
func (ws watches) found(try *acquire.Found) (free bool) {
	for _, k := range ws {
		free = k.found(try) || free
	}
	return free
}

func (ws watches) free() bool    { return slices.ContainsFunc(ws, (*KeyWatch).free) }
func (ws watches) first() bool   { return ws.all((*KeyWatch).first) }
func (ws watches) quorate() bool { return ws.all((*KeyWatch).quorate) }

// all reports whether all watches fulfil is, and there is one.
func (ws watches) all(are func(*KeyWatch) bool) bool {
	return len(ws) > 0 && !slices.ContainsFunc(ws, func(k *KeyWatch) bool { return !are(k) })
}
