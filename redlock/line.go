package redlock

import (
	"context"
	"slices"
	"sync/atomic"

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
func addTicket(w *waiting.Waiter, r *request) {
	line := *r.line
	if r.line = &line; r.kind == exclusive {
		r.kind = inLine
	}
	if w.Rank() == 0 {
		return
	}
	line.Ticket, line.Stays, line.Quiet = w.Ranked(), w.Ticket != nil, w.Quiet
	line.Rank = w.Lead().Rank() // called waiters ask as one, and the first stands for all
}

// NewTicket returns a waiter's ticket, which no node has yet.
func (h host) NewTicket(w *waiting.Waiter) waiting.Ticket {
	r := w.Call.(*request)
	line := *r.line
	line.Ticket, line.Stays = w.Ranked(), true
	return &quorum.Ticket{Board: h.board, Kind: r.kind.Kind, Key: w.Key, Line: line, At: make([]atomic.Int32, len(h.board.Nodes))}
}

// Leaves takes a ticket out of the lines of its keys, and puts next there in the same step, if not nil.
func (host) Leaves(was, next waiting.Ticket) {
	instead, _ := next.(*quorum.Ticket)
	was.(*quorum.Ticket).Leave(instead)
}
