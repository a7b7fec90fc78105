package redlock

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// behindAll is the line of a try that has no rank.
var behindAll = &protocol.Line{Ticket: protocol.Ticket{Class: protocol.WantsOne}}

// heed makes the request heed the tickets in line, but for those that wait for what ctx carries.
func (l *Locker) heed(ctx context.Context, r *request) {
	under := len(l.carries(ctx)) > 0
	if !under && !r.several() && !r.kind.joins() {
		return
	}
	line := *behindAll
	r.line, r.held, line.Under = &line, l.heldBy(ctx), under
	if r.kind.joins() {
		line.Class = protocol.WantsToRead
	}
	if r.several() {
		line.Class, line.Number = protocol.WantsSeveral, r.kind.wants()
	}
	for _, key := range r.held {
		if key = l.options.prefix + key; protocol.HasNames(key) {
			line.Held = append(line.Held, protocol.LineOf(key))
		}
	}
}

// heldBy returns the keys that ctx carries, in order.
func (l *Locker) heldBy(ctx context.Context) (keys []string) {
	for _, lock := range l.carries(ctx) {
		if lock.slots != nil || !lock.Valid() {
			continue
		}
		keys = append(keys, lock.hold.Names()...)
	}
	slices.Sort(keys)
	return keys
}

// nameOf is the name of the Locker in the lines of keys; "": its waiters leave no tickets.
func (l *Locker) nameOf(r request) string {
	if r.kind == exclusive && (r.token != nil || !protocol.HasNames(l.options.prefix+r.key)) {
		return ""
	}
	return l.name
}

// inLine is the exclusive lock of a waiter with a ticket, of a Locker without [WithFairness].
var inLine = &kind{Kind: protocol.InLine, lease: exclusive.lease}

// ages reports whether waiters for it leave tickets from some time on, if they may at all.
func (r *request) ages() bool {
	return r.kind == exclusive || r.kind.pool == nil && r.several() || r.kind.permits > 1
}

// heeds reports whether tries heed the tickets in line.
func (r *request) heeds() bool { return r.kind.pool != nil || r.kind.HeedsLine || r.kind.Joins }

// most is how many a waiter may want that does not wait for what the caller has of them.
func (r *request) most() int {
	if r.kind.pool == nil {
		return maxKeys
	}
	return r.line.Most
}

// What a Locker knows of others that wait for keys, as the nodes name these. It is no longer true a
// second later.
type knowledge struct {
	count atomic.Int32 // for whoever knows of nobody

	mu    sync.Mutex
	until map[string]clockdrift.Instant
}

const (
	knowledgeLife = time.Second
	knowledgeSize = 4096 // keys: what is more is not known
)

// has reports whether somebody is known to wait for the key.
func (k *knowledge) has(prefix, key string, now clockdrift.Instant) bool {
	if k.count.Load() == 0 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return now < k.until[prefix+key]
}

// put notes whether somebody waits for the key.
func (k *knowledge) put(key string, waits bool, now clockdrift.Instant) {
	if !waits && k.count.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.until) >= knowledgeSize {
		maps.DeleteFunc(k.until, func(_ string, until clockdrift.Instant) bool { return until <= now })
	}
	switch {
	case !waits:
		delete(k.until, key)
	case len(k.until) < knowledgeSize:
		if k.until == nil {
			k.until = make(map[string]clockdrift.Instant)
		}
		k.until[key] = now.Add(knowledgeLife)
	}
	k.count.Store(int32(len(k.until))) //nolint:gosec // it is small
}

// learnWaiters takes what a try in line says of others there.
func (l *Locker) learnWaiters(lock *lease) {
	if lock == nil || lock.hold.Kind != inLine.Kind {
		return
	}
	found := lock.hold.Last().Found()
	l.known.put(l.options.prefix+lock.hold.Key, found.Crowded || found.Outranked, l.clock.Now())
}

// addTicket gives a waiter's try its rank and its ticket. Until the nodes have told their time it has
// none.
func (h host) addTicket(w *waiting.Waiter, r *request) {
	line := *r.line
	if r.line = &line; r.kind == exclusive {
		r.kind = inLine
	}
	if h.Rank(w) == 0 {
		return
	}
	line.Ticket, line.Stays = *h.ticket(w), w.Stays
	if lead := w.Lines.Lead(w); lead != w { // they ask as one, and the first of them stands for all
		line.Rank, line.Stays = h.Rank(lead), false
	}
	line.Shy = r.kind == inLine && !w.Crowded()
	w.Ticketed = w.Ticketed || line.Stays && !line.Shy
}

// ticketOf is what a waiter leaves in its keys' lines, without its rank.
func (l *Locker) ticketOf(w *waiting.Waiter) *protocol.Ticket {
	r := w.Call.(*request)
	t := &protocol.Ticket{Class: r.line.Class, Number: r.line.Number, Name: l.name}
	if r.several() {
		t.Name += "." + strconv.FormatInt(w.Number, 10)
	} else {
		t.Number = r.priority
	}
	return t
}

// ticket is what a waiter leaves in its keys' lines.
func (h host) ticket(w *waiting.Waiter) *protocol.Ticket {
	t := h.ticketOf(w)
	t.Rank = h.Rank(w)
	return t
}

// Rank is that of a waiter, the same for all of its tries; 0: it has none, or the nodes have
// not told their time.
func (h host) Rank(w *waiting.Waiter) int64 {
	if rank := w.NodeRank.Load(); rank != 0 {
		return rank
	}
	if rank := h.since(w.RankedFrom); rank != 0 {
		w.NodeRank.CompareAndSwap(0, rank)
	}
	return w.NodeRank.Load()
}

// Behind reports whether a set's ticket is behind another one's in the lines of both: see line.lua.
// Until the nodes have told their time, it does if it began later.
func (h host) Behind(w, other *waiting.Waiter) bool {
	switch own, others := h.Rank(w), h.Rank(other); {
	case own == 0 || others == 0:
		return w.Began > other.Began
	case own != others:
		return own > others
	}
	return h.ticket(w).String() > h.ticket(other).String()
}

// NewTicket returns the places of a ticket that no node has.
func (h host) NewTicket() any { return h.board.NewTicket() }

// Leaves takes a waiter's ticket out of the lines of its keys, at the nodes that may have it, and leaves that of the next
// of the Locker's waiters there, if there is one.
func (h host) Leaves(w, next *waiting.Waiter) {
	r, ticket := w.Call.(*request), w.Places().(*quorum.Ticket)
	if next == nil && !ticket.Somewhere() {
		return
	}
	line := *r.line
	line.Ticket, line.Stays = *h.ticket(w), true
	if next == nil {
		ticket.Leave(h.board, r.kind.Kind, w.Key, &line, nil, nil)
	} else {
		ticket.Leave(h.board, r.kind.Kind, w.Key, &line, next.Places().(*quorum.Ticket), h.ticket(next))
	}
}

// learnClock notes how far the nodes' clocks are ahead of ours, in microseconds, by what they have told
// with a refusal; 0: they have not. All waits of the Locker are dated by one such offset, so that
// they have the order in which they began: by that which was the least on its way.
func (l *Locker) learnClock(offset int64) {
	known := l.waitClock.Load()
	if offset != 0 && (known == 0 || offset > known || known-offset > maxWaitDrift.Microseconds()) {
		l.waitClock.Store(offset)
	}
}

// maxWaitDrift is how far the nodes' time may be from what it was taken for.
const maxWaitDrift = time.Second

// since is a moment by the nodes' clocks, in microseconds; 0: they have not told.
func (l *Locker) since(began clockdrift.Instant) int64 {
	offset := l.waitClock.Load()
	if offset == 0 {
		return 0
	}
	return int64(began)/int64(time.Microsecond) + offset
}
