package redlock

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// behindAll is the line of a try without a rank.
var behindAll = &protocol.Line{Ticket: protocol.Ticket{Class: protocol.WantsOne}}

// heed makes the request heed the tickets in line, but for waiters that wait for keys of ctx.
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

// heldBy returns the keys of ctx, in order.
func (l *Locker) heldBy(ctx context.Context) (keys []string) {
	for _, lock := range l.carries(ctx) {
		if lock.slots != nil || !lock.valid() {
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
var inLine = &kind{Kind: protocol.InLine}

// ages reports whether waiters leave tickets from some age on, if they may at all.
func (r *request) ages() bool {
	return r.kind == exclusive || r.several()
}

// heeds reports whether tries heed the tickets in line.
func (r *request) heeds() bool { return r.kind.pool != nil || r.kind.HeedsLine || r.kind.Joins }

// most is the greatest wish of a waiter that does not wait for the caller's permits.
func (r *request) most() int {
	if r.kind.pool == nil {
		return maxKeys
	}
	return r.line.Most
}

// addTicket gives a waiter's try its rank and its ticket. Before the nodes have told their time there is no
// rank.
func (h host) addTicket(w *waiting.Waiter, r *request) {
	line := *r.line
	if r.line = &line; r.kind == exclusive {
		r.kind = inLine
	}
	if h.Rank(w) == 0 {
		return
	}
	line.Ticket, line.Stays, line.Quiet = *h.ticket(w), w.Ticket != nil, w.Quiet
	line.Rank = h.Rank(w.Lead()) // called waiters ask as one, and the first stands for all
}

// ticket is a waiter's ticket in its keys' lines.
func (h host) ticket(w *waiting.Waiter) *protocol.Ticket {
	r := w.Call.(*request)
	t := &protocol.Ticket{Class: r.line.Class, Number: r.line.Number, Name: h.name, Rank: h.Rank(w)}
	if r.several() {
		t.Name += "." + strconv.FormatInt(w.Number, 10)
	} else {
		t.Number = r.priority
	}
	return t
}

// Rank is a waiter's rank, the same for all of its tries; 0: it has none, or the nodes have not told their
// time.
func (h host) Rank(w *waiting.Waiter) int64 {
	if rank := w.NodeRank.Load(); rank != 0 {
		return rank
	}
	if rank := h.since(w.RankedFrom); rank != 0 {
		w.NodeRank.CompareAndSwap(0, rank)
	}
	return w.NodeRank.Load()
}

// Behind reports whether a set's ticket is behind another set's in the lines of both: see line.lua. Before
// the nodes have told their time, the later set is behind.
func (h host) Behind(w, other *waiting.Waiter) bool {
	switch own, others := h.Rank(w), h.Rank(other); {
	case own == 0 || others == 0:
		return w.Began > other.Began
	case own != others:
		return own > others
	}
	return h.ticket(w).String() > h.ticket(other).String()
}

// NewTicket returns a waiter's ticket, which no node has yet.
func (h host) NewTicket(w *waiting.Waiter) waiting.Ticket {
	r := w.Call.(*request)
	line := *r.line
	line.Ticket, line.Stays = *h.ticket(w), true
	return &quorum.Ticket{Board: h.board, Kind: r.kind.Kind, Key: w.Key, Line: line, At: make([]atomic.Int32, len(h.board.Nodes))}
}

// Leaves takes a ticket out of the lines of its keys, and puts next there in the same step, if not nil.
func (host) Leaves(was, next waiting.Ticket) {
	instead, _ := next.(*quorum.Ticket)
	was.(*quorum.Ticket).Leave(instead)
}

// learnClock notes how far the nodes' clocks are ahead of ours, in microseconds, as told with a refusal; 0:
// not told. All waits of the Locker are dated by one offset, which keeps their order: the offset of the
// fastest reply.
func (l *Locker) learnClock(offset int64) {
	known := l.waitClock.Load()
	if offset != 0 && (known == 0 || offset > known || known-offset > maxWaitDrift.Microseconds()) {
		l.waitClock.Store(offset)
	}
}

// maxWaitDrift is the greatest error of the nodes' time.
const maxWaitDrift = time.Second

// since is a moment by the nodes' clocks, in microseconds; 0: they have not told.
func (l *Locker) since(began clockdrift.Instant) int64 {
	offset := l.waitClock.Load()
	if offset == 0 {
		return 0
	}
	return int64(began)/int64(time.Microsecond) + offset
}
