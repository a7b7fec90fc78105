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
	watch    *KeyWatch          // nil: nothing that is announced was waited for yet
	last     error              // what the first was refused with last
	asked    *list.Element      // up to here those were called who may have the key beside who has it now
}

// MaxHandoffs is how many hand-overs there may be in a row. Then it is other processes' turn.
const MaxHandoffs = 8

func (l *line) first() *Waiter { return l.waiters.Front().Value.(*Waiter) }

// Lines are the lines of a Locker.
type Lines struct {
	mu    sync.Mutex // also guards what is in the lines
	byKey map[string]*line
	// workers are the waiters that work for a lock: see [Lines.works].
	workers map[Holder][]*Waiter
	count   atomic.Int32 // of them, for whoever has no waiter to look for

	sets     []*SetWaiter // who waits for several keys, in the order in which they came
	setCount atomic.Int32
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
	w.line = l
	l.enter(w)
	ls.works(w)
	ls.judge(l)
}

// enter puts w behind those that are to be served before. An urgent one of those who take turns may
// displace the first.
func (l *line) enter(w *Waiter) {
	before := l.waiters.Back()
	for before != nil && w.Options.Stands && before.Value.(*Waiter).Rank > w.Rank {
		before = before.Prev()
	}
	if before != l.waiters.Back() {
		l.asked = nil // it may be in the way of those who were called
	}
	if before != nil {
		w.place = l.waiters.InsertAfter(w, before)
		return
	}
	if displaced := l.waiters.Front(); displaced != nil {
		first := displaced.Value.(*Waiter)
		first.turn = make(chan struct{})
		first.nudge()
	}
	w.place = l.waiters.PushFront(w)
	close(w.turn)
}

// turnOf is closed when it is the turn of w; nil: it is.
func (ls *Lines) turnOf(w *Waiter) <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.line.waiters.Front() == w.place {
		return nil
	}
	return w.turn
}

// relieves tells the nodes that the next waiter stands in line from now on in place of w, the first
// of this process that waits no longer, or that nobody does.
func (ls *Lines) relieves(w *Waiter) {
	ls.mu.Lock()
	if w.line.waiters.Front() != w.place {
		ls.mu.Unlock()
		return // an urgent one stands there
	}
	var next *Waiter
	var place int64
	if e := w.place.Next(); e != nil && w.line.watch != nil && e.Value.(*Waiter).Options.Stands {
		next = e.Value.(*Waiter)
		next.relieves = true
		place = w.Host.Place(next)
	}
	if w.line.watch != nil {
		w.line.watch.stands(place) // before the nodes tell whether it is first
	}
	ls.mu.Unlock()
	w.Host.Leaves(w, next)
}

// relieved reports whether w has taken the place of another at the nodes.
func (ls *Lines) relieved(w *Waiter) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return w.relieves
}

// leave takes w out of the line, with the lock that it has got or nil. The next one's turn comes.
func (ls *Lines) leave(w *Waiter, lock Holder) {
	ls.mu.Lock()
	l := w.line
	wasFirst := l.waiters.Front() == w.place
	if l.asked == w.place {
		l.asked = w.place.Prev()
	}
	l.waiters.Remove(w.place)
	ls.rests(w)
	switch {
	case lock == nil || w.Options.Several:
	case lock.Joins():
		if !w.wasCalled {
			l.asked = nil
		}
		l.call()
	default:
		l.holder = lock // nobody works for it yet
	}
	var idle *KeyWatch
	switch {
	case l.waiters.Len() == 0:
		delete(ls.byKey, w.Key)
		ls.count.Add(-1)
		idle, l.watch = l.watch, nil
	case wasFirst:
		if first := l.first(); w.Options.Several && w.given {
			first.inherit(w)
		}
		close(l.first().turn)
	}
	ls.mu.Unlock()
	if idle != nil {
		idle.End()
	}
}

// Call lets the first waiter for key look again, and those at the front of the line try who may
// have it beside others: its holder here has it so now.
func (ls *Lines) Call(key string) {
	if ls.count.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byKey[key]; l != nil {
		l.holder = nil
		l.first().nudge()
		l.asked = nil
		l.call()
	}
}

// call calls the waiters at the front of the line that join, up to the first that does not: each once
// while one of them after the other gets the key, or each would call all behind it.
func (l *line) call() {
	next := l.waiters.Front()
	if l.asked != nil {
		next = l.asked.Next()
	}
	for ; next != nil && next.Value.(*Waiter).Joins; next = next.Next() {
		w := next.Value.(*Waiter)
		w.called, l.asked = true, next
		w.nudge()
	}
}

// calls reports whether w is to try now, though it may not be its turn.
func (ls *Lines) calls(w *Waiter) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !w.called || w.state == promised {
		return false
	}
	w.called, w.wasCalled, w.missed, w.state = false, true, false, trying
	return true
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
	case w.Options.Stands && (w != l.first() || l.watch == nil || !l.watch.first()):
		l.first().nudge() // it is for whom the nodes tell, by the announcement of the release
		return nil
	}
	l.handoffs++
	w.state = promised
	return w
}

// Yields reports whether it is other processes' turn: also of those that stand in no line.
func (ls *Lines) Yields(key string) bool {
	if ls.count.Load() == 0 {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[key]
	return l != nil && l.yields > l.first().Host.Now()
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
func (ls *Lines) ahead(w *Waiter) (holder Holder, yields clockdrift.Instant, watch *KeyWatch) {
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
	if !w.Options.Several { // others may have released the place that it asks for
		w.line.handoffs = 0
	}
	if w.line.watch != nil {
		w.line.watch.stands(w.Host.Place(w))
		w.line.watch.Arm() // before the try: what is announced meanwhile counts
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
func (ls *Lines) failed(w *Waiter, token string, err error) (watch *KeyWatch, local, missed bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := w.line
	w.state, w.wasCalled, l.last = parked, false, err
	missed, w.missed = w.missed, false
	if lock := w.Host.HolderOf(token); lock != nil && lock != l.holder {
		l.holder = lock
		ls.judge(l)
	}
	if l.watch == nil && (l.holder == nil && !missed || w.Options.Stands) {
		l.watch = NewKeyWatch(w.Host, w.Key, w.Options.Name, make(chan struct{}, 1))
		l.watch.stands(w.Host.Place(w))
	}
	return l.watch, l.holder != nil, missed
}

// Waiters is how many wait.
func (ls *Lines) Waiters() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	count := len(ls.sets)
	for _, l := range ls.byKey {
		count += l.waiters.Len()
	}
	return count
}

// Len is the number of lines.
func (ls *Lines) Len() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.byKey)
}
