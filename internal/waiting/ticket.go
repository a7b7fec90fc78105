package waiting

import "github.com/quorumlock/quorumlock/internal/protocol"

// Rank is the rank of the waiter's ticket, the same for all its tries: when the waiter came, in microseconds
// of the nodes' clocks; 0: the nodes have not told their time.
func (w *Waiter) Rank() int64 {
	if w.rank.Load() == 0 {
		w.rank.CompareAndSwap(0, w.Lines.Dates.Of(w.RankedFrom))
	}
	return w.rank.Load()
}

// Ranked is the waiter's ticket in the lines of its keys.
func (w *Waiter) Ranked() protocol.Ticket {
	ticket := w.Base
	ticket.Rank = w.Rank()
	return ticket
}

// behind reports whether a set's ticket is behind another set's in the lines of both: see line.lua. Before
// the nodes have told their time, the later set is behind.
func (w *Waiter) behind(other *Waiter) bool {
	own, others := w.Ranked(), other.Ranked()
	switch {
	case own.Rank == 0 || others.Rank == 0:
		return w.Began > other.Began
	case own.Rank != others.Rank:
		return own.Rank > others.Rank
	}
	return own.String() > others.String()
}

// A Ticket is left by tries in the lines of their keys at the nodes. A node has one ticket of a name.
type Ticket interface {
	Name() string
	There() bool // a node is known to have the ticket
}

// A standing is the ticket of this process in the line of a key at the nodes, or in the lines of a set's
// keys: one ticket, however many wait here.
type standing struct {
	of     *Waiter // whose tries leave the ticket; nil: nobody's do
	ticket Ticket  // of the owner, or of the last one
}

// goesTo gives the standing to w; nil: to nobody. If the ticket of w has the last one's name, the next try
// of w moves the ticket to w's rank. The nodes replace a ticket of another name in one step, or others would
// pass w meanwhile. Lines.mu is held: the nodes are asked before any later try.
func (s *standing) goesTo(w *Waiter) {
	was := *s
	if s.of = w; w == was.of {
		return
	}
	if w != nil {
		s.ticket = w.Lines.Host.NewTicket(w)
	}
	switch {
	case was.of == nil:
	case w == nil:
		was.of.Lines.Host.Leaves(was.ticket, nil)
	case s.ticket.Name() == was.ticket.Name():
		s.ticket = was.ticket
	default:
		was.of.Lines.Host.Leaves(was.ticket, s.ticket)
	}
}

// settle takes the standing from a waiter that is no longer the first in line: it is displaced, served, or
// gone. A first waiter of a fair Locker gets the standing. Any other waiter gets the standing when its own
// try leaves a ticket. The state of the line decides, and no event: no ticket of nobody stays. Lines.mu is
// held.
func (l *line) settle() {
	var first *Waiter
	if l.waiters.Len() > 0 {
		first = l.first()
	}
	switch {
	case l.standing.of == nil || l.standing.of == first:
	case first == nil:
		l.standing.goesTo(nil)
	default:
		rank := int64(0)
		if first.Fair {
			rank = first.Rank()
		}
		l.watches.inLine(rank, true, first.Joins) // the nodes' messages were about another rank
		if rank == 0 {
			first = nil
		}
		l.standing.goesTo(first)
	}
}

// stand decides whether the next try of w leaves its ticket: then w has the standing. Lines.mu is held.
func (w *Waiter) stand() {
	w.Ticket = nil
	if w.Stays = w.stands(); w.Stays && w.Rank() != 0 {
		w.standing.goesTo(w)
		w.Ticket = w.standing.ticket
	}
}

// stood reports whether nodes have the ticket of w. Lines.mu is held.
func (w *Waiter) stood() bool { return w.standing.of == w && w.standing.ticket.There() }

// withdraw takes away the ticket that a try of w has left after w was displaced. Lines.mu is held.
func (w *Waiter) withdraw() {
	if w.Ticket != nil && (w.standing.of == nil || w.Ticket != w.standing.ticket) {
		w.Lines.Host.Leaves(w.Ticket, nil)
	}
}
