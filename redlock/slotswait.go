package redlock

import (
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A slotsHost is the Locker as its waiters for any slot of a semaphore see it.
type slotsHost struct {
	host
	slots *slots
}

// HolderOf returns nil: nobody waits for one holder alone.
func (slotsHost) HolderOf(string) waiting.Holder { return nil }

// Listen lets w hear the announcements of all slots, and of the mark of those who wait for several.
func (h slotsHost) Listen(_ string, w waiting.Listener) {
	s := h.slots
	s.listening.Lock()
	defer s.listening.Unlock()
	if s.watch != nil {
		s.watch.add(w)
		return
	}
	s.watch = &slotsWatch{slots: s, listeners: []waiting.Listener{w}, confirmed: make([][]bool, len(h.board.Nodes))}
	for i := range s.watch.confirmed {
		s.watch.confirmed[i] = make([]bool, len(s.all)+1)
	}
	for place := len(s.all); place >= 0; place-- {
		for _, n := range h.board.Nodes {
			n.Listen(s.channel(place), slotWatch{s.watch, place})
		}
	}
}

// Unlisten ends that.
func (h slotsHost) Unlisten(_ string, w waiting.Listener) {
	s := h.slots
	s.listening.Lock()
	defer s.listening.Unlock()
	if s.watch.remove(w) > 0 {
		return
	}
	for place := range len(s.all) + 1 {
		for _, n := range h.board.Nodes {
			n.Unlisten(s.channel(place), slotWatch{s.watch, place})
		}
	}
	s.watch = nil
}

// channel is where releases of a slot are announced; behind the last one, the end of a mark.
func (s *slots) channel(place int) string {
	if place == len(s.all) {
		return protocol.WakeChannel + s.semaphore.Mark()
	}
	return protocol.WakeChannel + s.all[place].kind.Place
}

// dated returns the options of a try of one who waits for one permit: since when. While others wait for
// several it leaves a mark where it is refused, as they do, by a name that it keeps from then on.
func (h host) dated(w *waiting.Waiter, o *acquireOptions) *acquireOptions {
	since := h.since(w.Began)
	if since == 0 || o.turn.Stays > 0 {
		return o // nobody has told the time yet; or its mark may be there
	}
	own := *o
	own.turn = &protocol.Turn{Since: since, Name: newcomer.Name}
	if o.kind.slots.crowded(w.Began) {
		own.turn.Stays, own.turn.Name = waiting.MarkLife, h.board.Random.Nonce()
	}
	return &own
}

// crowded reports whether somebody was seen to wait for several permits since then.
func (s *slots) crowded(since clockdrift.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crowdedAt > since
}

// A slotsWatch listens to the announcements of all slots, and of marks, for all who wait: a node's
// channel has one listener.
type slotsWatch struct {
	slots *slots

	mu        sync.Mutex
	listeners []waiting.Listener
	confirmed [][]bool // by node and channel: announcements arrive
}

// add lets w listen as well.
func (s *slotsWatch) add(w waiting.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, w)
	for node := range s.confirmed {
		w.OnSubscribed(node, s.hears(node))
	}
}

// remove ends that, and returns how many listen still.
func (s *slotsWatch) remove(w waiting.Listener) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = slices.DeleteFunc(s.listeners, func(other waiting.Listener) bool { return other == w })
	return len(s.listeners)
}

// hears reports whether all announcements of the node arrive. mu is held.
func (s *slotsWatch) hears(node int) bool { return !slices.Contains(s.confirmed[node], false) }

// A slotWatch is that for one channel.
type slotWatch struct {
	*slotsWatch
	place int
}

// OnSubscribed tells the listeners once all announcements of the node arrive, or some do not
// any more.
func (w slotWatch) OnSubscribed(node int, subscribed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.confirmed[node][w.place] = subscribed
	for _, l := range w.listeners {
		l.OnSubscribed(node, w.hears(node))
	}
}

// OnMessage notes which slot is free, or that the slots are not kept for anybody, and tells the
// listeners.
func (w slotWatch) OnMessage(node int, payload string) {
	if w.place < len(w.slots.all) {
		w.slots.all[w.place].alone.free(likely)
	} else {
		w.slots.keep(0)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.listeners {
		l.OnMessage(node, payload)
	}
}
