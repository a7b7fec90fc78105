package waiting

import (
	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// MaxHandoffs is how many hand-overs there may be in a row, and maxRow for how long. Then it is
// other processes' turn. Holds that are long would make these wait for a multiple of them.
const (
	MaxHandoffs = 8
	maxRow      = setAge
)

// A Row is hand-overs in a row, which a lock came by in this process.
type Row struct {
	count int
	began clockdrift.Instant // the first of them
}

// goesOn adds one that is made now. It reports false if that is one too many.
func (r *Row) goesOn(now clockdrift.Instant) bool {
	switch {
	case r.count == 0:
		r.began = now
	case r.count >= MaxHandoffs || now.Sub(r.began) >= maxRow:
		return false
	}
	r.count++
	return true
}

// Next returns the waiter to whom a lock on key that is being released goes, which came by such a
// row: it is promised a hand-over, and wants a [Waiter.Give]. It is nil if nobody waits, or if it
// is other processes' turn. The row is that of the waiter's lock then.
func (ls *Lines) Next(key string, row Row) (next *Waiter, _ Row) {
	ls.at(key, func(l *line) {
		l.holder = nil
		w, now := l.next(), l.first().Host.Now()
		switch {
		case w == nil:
			l.first().missed = true
		case !row.goesOn(now):
			l.yields = now.Add(yield(w.Host))
			l.first().nudge()
		case w.Options.Fair && (w != l.first() || !l.watches.first()):
			l.first().nudge() // it is for whom the nodes tell, by the announcement of the release
		default:
			w.state, next = promised, w
		}
	})
	return next, row
}

// next is the first waiter who is not about to leave, or nil if the first of all is asking the
// nodes itself at the moment.
func (l *line) next() *Waiter {
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		switch w := e.Value.(*Waiter); {
		case w.state != parked && w.Options.Several:
		case w.state != parked:
			return nil
		case w.Context.Err() == nil:
			return w
		}
	}
	return nil
}

// Yields reports whether it is other processes' turn: also of those that have no ticket.
func (ls *Lines) Yields(key string) (yields bool) {
	ls.at(key, func(l *line) { yields = l.yields > l.first().Host.Now() })
	return yields
}

// Hurry ends the pause that the first waiter for key makes for other processes, if a release has
// just shown that there are none.
func (ls *Lines) Hurry(key string) {
	ls.at(key, func(l *line) {
		if w := l.first(); l.yields != 0 && !w.Host.Others() {
			l.yields = 0
			w.nudge()
		}
	})
}

// Freed notes that a lock of this Locker leaves its key to nobody: sets may try.
func (ls *Lines) Freed(key string) { ls.freed([]string{key}, false) }

// FreedAll is Freed for a lock on several keys. The first who waits for one of them alone may try
// as well.
func (ls *Lines) FreedAll(keys []string) { ls.freed(keys, true) }

func (ls *Lines) freed(keys []string, alone bool) {
	if ls.count.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, key := range keys {
		l := ls.byKey[key]
		if l == nil {
			continue
		}
		l.wakeSets(0, true)
		if alone && l.waiters.Len() > 0 {
			l.holder = nil
			l.first().missed = true
			l.first().nudge()
		}
	}
}

// Call lets the first waiter for key look again, and those at the front of the line try who may
// have it beside others: its holder here has it so now.
func (ls *Lines) Call(key string) {
	ls.at(key, func(l *line) {
		l.holder, l.asked = nil, nil
		l.first().nudge()
		l.call()
	})
}

// call calls the waiters at the front of the line that join, up to the first that does not: each
// once while one of them after the other gets the key, or each would call all behind it.
func (l *line) call() {
	next := l.waiters.Front()
	if l.asked != nil {
		next = l.asked.Next()
	}
	for ; next != nil && next.Value.(*Waiter).Joins; next = next.Next() {
		w := next.Value.(*Waiter)
		w.called, w.leader, l.asked = true, l.first(), next
		w.nudge()
	}
}

// calls reports whether w is to try now, though it may not be its turn. ls.mu is held.
func (ls *Lines) calls(w *Waiter) bool {
	if !w.called {
		return false
	}
	w.called, w.wasCalled, w.missed, w.state = false, true, false, trying
	return true
}

// takes notes that w has what it was promised. If that came to nothing a lock can be handed over to
// it again.
func (ls *Lines) takes(w *Waiter, gift Attempt) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.state = trying; gift == nil {
		w.state = parked
	}
}

// refuse makes w take no lock any more, unless it was promised one. It returns what w, or those
// before it, were refused with last.
func (ls *Lines) refuse(w *Waiter) (promise bool, last error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if last = w.last; last == nil && w.line != nil {
		last = w.line.last
	}
	if last == nil {
		last = &fault.StateError{Op: "acquire", Key: w.Key, Why: fault.ErrTaken}
	}
	if w.state == promised {
		return true, last
	}
	w.state = trying
	return false, last
}

// failed notes that a try of w has failed because of err: the token has the key. It reports whether
// that is a lock of this Locker, and whether nobody here is before w. What is announced of the keys
// arrives from now on.
func (ls *Lines) failed(w *Waiter, token string, err error) (all watches, local, first bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.wasCalled = false; w.state == trying {
		w.state = parked // else it was promised a lock since
	}
	holder := w.Host.HolderOf(token)
	first, _ = ls.isFirst(w)
	if l := w.line; l != nil {
		if l.last = err; holder != nil && holder != l.holder {
			l.holder = holder
			ls.judge(l)
		}
		holder = l.holder
	}
	if len(*w.watches) == 0 && w.covered == 0 && (holder == nil && !w.missed || w.Options.Fair) {
		news := make(chan struct{}, 1)
		for _, key := range w.Keys {
			*w.watches = append(*w.watches, NewKeyWatch(w.Host, key, w.Options.Name, news))
		}
	}
	if first {
		w.watches.inLine(w.lineRank(), w.firstOnly(), w.Joins)
	}
	return *w.watches, holder != nil, first
}
