package waiting

// A ticket is what tries of waiters leave in the lines of their keys at the nodes. Waiters for one key have it in common
// if theirs have one name, because a node keeps one of a name. Lines.mu guards it.
type ticket struct {
	places any // at which nodes it may be: see [Host.NewTicket]
	users  int // waiters whose tries leave it
}

// share gives w the ticket of the line that has its name. Lines.mu is held.
func (l *line) share(w *Waiter) {
	if w.ticket = l.tickets[w.TicketName]; w.ticket != nil {
		return
	}
	if l.tickets == nil {
		l.tickets = make(map[string]*ticket)
	}
	w.ticket = &ticket{places: w.Host.NewTicket()}
	l.tickets[w.TicketName] = w.ticket
}

// Places are the nodes at which the ticket of w may be, as [Host.NewTicket] has made them.
func (w *Waiter) Places() any { return w.ticket.places }

// stands notes that the tries of w leave its ticket from now on.
func (ls *Lines) stands(w *Waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.stand()
}

func (w *Waiter) stand() {
	if !w.standing {
		w.standing = true
		w.ticket.users++
	}
}

// givesBack ends the use that w, which is in the line no longer, makes of its ticket. Where no other waiter uses the
// ticket, the first in the line takes it over, if that takes turns by the same name and so tries at once. One of another
// name may have lost its own ticket while w stood before it: the nodes replace that of w by it in one step, or others
// would go before it meanwhile. Else the nodes take the ticket out of their lines. This follows from who is in the line,
// and from nothing that has happened: so no ticket stays that is nobody's. Lines.mu is held, so that the nodes are asked
// before any later try.
func (w *Waiter) givesBack() {
	if !w.standing {
		return
	}
	w.standing = false
	w.ticket.users--
	if w.ticket.users > 0 {
		return
	}
	var next *Waiter
	if l := w.line; l != nil && l.waiters.Len() > 0 && l.first().place() != 0 {
		next = l.first()
		next.stand()
	}
	if next == nil || next.ticket != w.ticket {
		w.Host.Leaves(w, next)
	}
}
