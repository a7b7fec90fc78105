package waiting

import (
	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// MaxHandoffs bounds the hand-overs in a row, and maxRow their time: then it is other processes' turn. Long
// holds would make these wait for a multiple.
const (
	MaxHandoffs = 8
	maxRow      = acquire.Age
)

// A Row is the hand-overs in a row before a lock, in this process.
type Row struct {
	count int
	began clockdrift.Instant // the first of them
}

// goesOn adds a hand-over. False: it would be one too many.
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

// Next returns the waiter that gets a released lock on key, after such a row: the waiter is promised a
// hand-over, and wants a [Waiter.Give]. Nil: nobody waits, or it is other processes' turn. The row returned
// is for the waiter's lock.
func (ls *Lines) Next(key string, row Row) (next *Waiter, _ Row) {
	ls.at(key, func(l *line) {
		l.holder = nil
		w, now := l.next(), ls.Clock.Now()
		switch {
		case w == nil:
			l.first().missed = true
		case !row.goesOn(now):
			l.yields = now.Add(acquire.Yield(ls.Trip(), ls.Jitter))
			l.first().nudge()
		case w.Fair && (w != l.first() || !l.watches.first()):
			l.first().nudge() // the nodes tell whose turn it is, by the announcement of the release
		default:
			w.state, next = promised, w
		}
	})
	return next, row
}

// next is the first waiter that is not about to leave, or nil if the first of all is asking the nodes.
func (l *line) next() *Waiter {
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		switch w := e.Value.(*Waiter); {
		case w.state != parked && w.Several:
		case w.state != parked:
			return nil
		case w.Context.Err() == nil:
			return w
		}
	}
	return nil
}

// Yields reports whether it is other processes' turn, also for processes without a ticket.
func (ls *Lines) Yields(key string) (yields bool) {
	ls.at(key, func(l *line) { yields = l.yields > ls.Clock.Now() })
	return yields
}

// Hurry ends the pause of the first waiter for key, made for other processes: a release has just shown that
// there are none.
func (ls *Lines) Hurry(key string) {
	ls.at(key, func(l *line) {
		if w := l.first(); l.yields != 0 && !ls.others() {
			l.yields = 0
			w.nudge()
		}
	})
}

// Freed notes that a lock of this Locker leaves its key to nobody: sets may try.
func (ls *Lines) Freed(key string) { ls.freed([]string{key}, false) }

// FreedAll is Freed for a lock on several keys. The first waiter for each of them alone may try as well.
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

// Call makes the first waiter for key look again, and calls the waiters at the front that may join: a reader
// here has the key now.
func (ls *Lines) Call(key string) {
	ls.at(key, func(l *line) {
		l.holder, l.asked = nil, nil
		l.first().nudge()
		l.call()
	})
}

// call calls the joining waiters at the front of the line, up to the first that does not join: each once
// while they get the key one after another, or each would call all behind it.
func (l *line) call() {
	next := l.waiters.Front()
	if l.asked != nil {
		next = l.asked.Next()
	}
	for ; next != nil && next.Value.(*Waiter).Joins; next = next.Next() {
		w := next.Value.(*Waiter)
		w.calls, l.asked = l.first(), next
		w.nudge()
	}
}

// takes notes that w has its promised lock. If the promise came to nothing, w may be promised another.
func (ls *Lines) takes(w *Waiter, gift Attempt) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.state = trying; gift == nil {
		w.state = parked
	}
}

// refuse makes w take no more locks, unless one is promised. It returns the last refusal of w, or of the
// waiters before it.
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

// failed notes that a try of w has failed with err: the token has the key. It reports whether the token is a
// lock of this Locker, whether w is the first here, and whether nodes have its ticket. Announcements of the
// keys arrive from now on.
func (ls *Lines) failed(w *Waiter, token string, err error) (all watches, at acquire.Position) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.lead = nil; w.state == trying {
		w.state = parked // else a lock was promised since
	}
	w.withdraw()
	holder := ls.Host.HolderOf(token)
	first, _ := ls.isFirst(w)
	if l := w.line; l != nil {
		if l.last = err; holder != nil && holder != l.holder {
			l.holder = holder
			ls.judge(l)
		}
		holder = l.holder
	}
	if len(*w.watches) == 0 && w.covered == 0 && (holder == nil && !w.missed || w.Fair) {
		news := make(chan struct{}, 1)
		for _, key := range w.Keys {
			*w.watches = append(*w.watches, NewKeyWatch(ls, key, w.Name, news))
		}
	}
	if first {
		w.watches.inLine(w.lineRank(), w.firstOnly(), w.Joins)
	}
	return *w.watches, acquire.Position{First: first, Local: holder != nil, Stays: w.Stays, Left: w.Ticket != nil, Ranked: w.Rank() != 0, Stood: w.stood()}
}
