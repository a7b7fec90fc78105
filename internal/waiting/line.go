// Package waiting orders who waits for a key: who is next in this process, who was told what by
// which node, and when to try again. It knows nothing of commands.
package waiting

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A line is this Locker's waiters for one key, in the order in which they came. Only the first
// contends for the key with other processes, and a lock that is released here goes to the first
// straight away. A line exists while anybody waits.
type line struct {
	waiters  list.List          // of *Waiter
	holder   Holder             // who has the key, if it is a lock of this Locker
	handoffs int                // in a row
	yields   clockdrift.Instant // until then the first lets other processes go ahead
	watch    *keyWatch          // nil: nothing that is announced was waited for yet
	last     error              // what the first was refused with last
}

// MaxHandoffs is how many hand-overs there may be in a row. Then it is other processes' turn.
const MaxHandoffs = 8

func (l *line) first() *Waiter { return l.waiters.Front().Value.(*Waiter) }

// Lines are the lines of a Locker.
type Lines struct {
	mu    sync.Mutex // also guards what is in the lines
	byKey map[string]*line
	count atomic.Int32 // of them, for whoever has no waiter to look for
}

// Has reports whether somebody waits for key.
func (ls *Lines) Has(key string) bool {
	if ls.count.Load() == 0 {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byKey[key] != nil
}

// join puts w at the end of the line for its key.
func (ls *Lines) join(w *Waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[w.Key]
	if l == nil {
		l = &line{}
		if ls.byKey == nil {
			ls.byKey = make(map[string]*line)
		}
		ls.byKey[w.Key] = l
		ls.count.Add(1)
	}
	w.line, w.place = l, l.waiters.PushBack(w)
	if l.waiters.Len() == 1 {
		close(w.turn)
	}
}

// leave takes w out of the line, with the lock that it has got or nil. The next one's turn comes.
func (ls *Lines) leave(w *Waiter, lock Holder) {
	ls.mu.Lock()
	l := w.line
	wasFirst := l.waiters.Front() == w.place
	l.waiters.Remove(w.place)
	if lock != nil {
		l.holder = lock
	}
	var idle *keyWatch
	switch {
	case l.waiters.Len() == 0:
		delete(ls.byKey, w.Key)
		ls.count.Add(-1)
		idle, l.watch = l.watch, nil
	case wasFirst:
		close(l.first().turn)
	}
	ls.mu.Unlock()
	if idle != nil {
		idle.end()
	}
}

// Next returns the waiter to whom a lock on key that is being released goes: it is promised a
// hand-over, and wants a [Waiter.Give]. It is nil if nobody waits, or if it is other processes'
// turn.
func (ls *Lines) Next(key string) *Waiter {
	if ls.count.Load() == 0 {
		return nil
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[key]
	if l == nil {
		return nil
	}
	l.holder = nil
	w := l.next()
	switch {
	case w == nil:
		l.first().missed = true
		return nil
	case l.handoffs >= MaxHandoffs:
		l.handoffs = 0
		l.yields = w.Host.Now().Add(yield(w.Host))
		l.first().nudge()
		return nil
	}
	l.handoffs++
	w.state = promised
	return w
}

// next is the first waiter who is not about to leave, or nil if the first of all is asking the
// nodes itself at the moment.
func (l *line) next() *Waiter {
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		switch w := e.Value.(*Waiter); {
		case w.state != parked:
			return nil
		case w.Context.Err() == nil:
			return w
		}
	}
	return nil
}

// Hurry ends the pause that the first waiter for key makes for other processes, if a release has
// just shown that there are none.
func (ls *Lines) Hurry(key string) {
	if ls.count.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[key]
	if l == nil || l.yields == 0 {
		return
	}
	if w := l.first(); !w.Host.Others() {
		l.yields = 0
		w.nudge()
	}
}

// ahead returns what the first waiter has before it: a lock of this Locker, other processes' turn,
// and what is announced of the key.
func (ls *Lines) ahead(w *Waiter) (holder Holder, yields clockdrift.Instant, watch *keyWatch) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return w.line.holder, w.line.yields, w.line.watch
}

// forget notes that a lock of this Locker is over.
func (ls *Lines) forget(w *Waiter, holder Holder) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.line.holder == holder {
		w.line.holder = nil
	}
}

// begin lets w try by itself, unless it was promised a lock.
func (ls *Lines) begin(w *Waiter) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.state == promised {
		return false
	}
	w.state, w.missed = trying, false
	w.line.handoffs = 0
	if w.line.watch != nil {
		w.line.watch.arm() // before the try: what is announced meanwhile counts
	}
	return true
}

// park makes w a waiter again to whom a lock can be handed over.
func (ls *Lines) park(w *Waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.state = parked
}

// refuse makes w take no lock any more, unless it was promised one.
func (ls *Lines) refuse(w *Waiter) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.state == promised {
		return false
	}
	w.state = trying
	return true
}

// last returns what the waiters for w's key were refused with last.
func (ls *Lines) last(w *Waiter) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.line.last != nil {
		return w.line.last
	}
	return &fault.StateError{Op: "acquire", Key: w.Key, Why: fault.ErrTaken}
}

// failed notes that a try of the first waiter has failed because of err: the token has the key. It
// reports whether that is a lock of this Locker, and whether one was released meanwhile. What is
// announced of the key arrives from now on.
func (ls *Lines) failed(w *Waiter, token string, err error) (watch *keyWatch, local, missed bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := w.line
	w.state, l.last = parked, err
	missed, w.missed = w.missed, false
	if lock := w.Host.HolderOf(token); lock != nil {
		l.holder = lock
	}
	if l.holder == nil && !missed && l.watch == nil {
		l.watch = newKeyWatch(w.Host, w.Key)
	}
	return l.watch, l.holder != nil, missed
}

// Len is the number of lines.
func (ls *Lines) Len() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.byKey)
}
