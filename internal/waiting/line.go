// Package waiting orders who waits for a key: who is next in this process, who was told what by
// which node, and when to try again. It knows nothing of commands.
package waiting

import (
	"container/list"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A line is this Locker's waiters for one key. Of those that want the key alone only the first
// contends for it with other processes, and a lock that is released here goes to the first straight
// away. Sets are in the line of each of their keys, and contend when no other set is in their way.
// Between the two the nodes' lines decide. A line exists while anybody waits.
type line struct {
	waiters list.List          // of *Waiter: who wants the key alone, in the order in which they came
	sets    []set              // in that order as well
	holder  Holder             // who has the key, if it is a lock of this Locker
	yields  clockdrift.Instant // until then the first lets other processes go ahead
	watches watches            // of the key
	last    error              // what the first was refused with last
	intent  *intent            // what the first goes on with
	asked   *list.Element      // up to here those were called who may have the key beside who has it now
	tickets map[string]*ticket // of waiters, by their names at the nodes
}

func (l *line) first() *Waiter { return l.waiters.Front().Value.(*Waiter) }

// Lines are the lines of a Locker.
type Lines struct {
	mu    sync.Mutex // also guards what is in the lines
	byKey map[string]*line
	// workers are the waiters that work for a lock: see [Lines.works].
	workers map[Holder][]*Waiter
	count   atomic.Int32 // of waiters
}

// at shows the line of those who want a key alone, if there are any. ls.mu is held meanwhile.
func (ls *Lines) at(key string, show func(*line)) {
	if ls.count.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byKey[key]; l != nil && l.waiters.Len() > 0 {
		show(l)
	}
}

// Has reports whether somebody waits for key alone.
func (ls *Lines) Has(key string) (has bool) {
	ls.at(key, func(*line) { has = true })
	return has
}

// Len is the number of lines.
func (ls *Lines) Len() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.byKey)
}

// join puts w at the end of the lines of its keys.
func (ls *Lines) join(w *Waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.count.Add(1)
	w.watches = new(watches)
	if w.isSet() {
		w.ticket = &ticket{places: w.Host.NewTicket()}
	}
	for _, key := range w.Keys {
		l := ls.byKey[key]
		if l == nil {
			l = &line{}
			if ls.byKey == nil {
				ls.byKey = make(map[string]*line)
			}
			ls.byKey[key] = l
		}
		if w.isSet() {
			l.enterSet(w)
			continue
		}
		w.line, w.watches = l, &l.watches
		l.enter(w)
		l.share(w)
		ls.works(w)
		ls.judge(l)
	}
}

// enter puts w behind those that are to be served before. An urgent one of those who take turns may
// displace the first.
func (l *line) enter(w *Waiter) {
	before := l.waiters.Back()
	for before != nil && w.Options.Fair && before.Value.(*Waiter).RankedFrom > w.RankedFrom {
		before = before.Prev()
	}
	if before != l.waiters.Back() {
		l.asked = nil // it may be in the way of those who were called
	}
	if before != nil {
		w.element = l.waiters.InsertAfter(w, before)
		return
	}
	if l.waiters.Len() > 0 {
		l.first().nudge()
	}
	w.element = l.waiters.PushFront(w)
}

// Lead is who was the first waiter for the key of w when w was called, which may have it beside that
// one; else w.
func (ls *Lines) Lead(w *Waiter) *Waiter {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.wasCalled {
		return w.leader
	}
	return w
}

// leave takes w out of the lines, with the lock that it has got or nil. The turn of those behind it
// comes.
func (ls *Lines) leave(w *Waiter, lock Holder) {
	ls.mu.Lock()
	ls.count.Add(-1)
	idle := ls.takeOut(w, lock)
	for _, key := range w.Keys {
		if l := ls.byKey[key]; l.waiters.Len() == 0 && len(l.sets) == 0 {
			delete(ls.byKey, key)
		}
	}
	ls.mu.Unlock()
	idle.each((*KeyWatch).End)
}

// takeOut does so, and returns the watches of which nobody has need any more. ls.mu is held.
func (ls *Lines) takeOut(w *Waiter, lock Holder) (idle watches) {
	l := w.line
	if l == nil {
		w.givesBack()
		for _, key := range w.Keys {
			l := ls.byKey[key]
			l.wakeSets(l.leaveSet(w), lock == nil || w.Options.Several) // else the keys are not free
		}
		return *w.watches
	}
	wasFirst := l.first() == w
	if l.asked == w.element {
		l.asked = w.element.Prev()
	}
	l.waiters.Remove(w.element)
	w.leader = nil // or those that it had would never be freed
	ls.worksNoMore(w)
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
	if wasFirst && w.standing && l.waiters.Len() > 0 { // what the nodes have said was of its rank, and what they say of the next is to count
		l.watches.inLine(l.first().place(), true, l.first().Joins)
	}
	w.givesBack()
	switch {
	case l.waiters.Len() == 0:
		idle = l.watches
		*l = line{sets: l.sets}
	case wasFirst:
		if l.intent = nil; w.Options.Several && w.given {
			own := w.intent // it has got a slot of another holder's: whatever else it waited for is as it was
			l.intent = &own
		}
		l.first().nudge()
	}
	return idle
}

// look lets w try, if it is time to: then wait is 0. Else it says for how long w has to wait, what
// would be news meanwhile, and whether nobody of this process is before it.
func (ls *Lines) look(w *Waiter) (wait time.Duration, news <-chan struct{}, first bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	switch {
	case w.state == promised:
		return math.MaxInt64, nil, true // a lock is on its way here
	case w.state == trying:
		return 0, nil, true
	case ls.calls(w):
		w.How = Woken
		return 0, nil, true
	}
	if first, wait = ls.isFirst(w); !first {
		if w.isSet() && len(*w.watches) > 0 {
			news = (*w.watches)[0].News
		}
		return wait, news, false
	}
	var yields clockdrift.Instant
	var holder Holder
	if l := w.line; l != nil {
		if yields, holder = l.yields, l.holder; l.intent != nil {
			w.intent, l.intent = *l.intent, nil
		}
	}
	if w.missed && !w.Options.Fair {
		w.due = 0
	}
	now := w.Host.Now()
	switch wait = max(w.due, yields).Sub(now); {
	case holder != nil:
		switch left := holder.Left(); {
		case left <= 0:
			w.line.holder = nil
			wait = max(w.Host.Trip(), w.due.Sub(now)) // its release may be about to leave
		case w.Options.Fair || w.Ticketed:
			wait = min(left, w.due.Sub(now)) // it has to keep its ticket
		default:
			wait = left // until then it is handed over, or extended
		}
	case len(*w.watches) > 0 && (w.last == nil || w.outlook.Taken) && !w.selfWoken:
		news = (*w.watches)[0].News // where nobody holds it, the news would be of our own tries
	}
	if wait > 0 {
		return wait, news, true
	}
	w.state, w.missed, w.tried = trying, false, now
	w.watches.inLine(w.lineRank(), w.firstOnly(), w.Joins)
	w.watches.each((*KeyWatch).Arm) // before the try: what is announced meanwhile counts
	return 0, nil, true
}
