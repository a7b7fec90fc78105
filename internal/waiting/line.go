// Package waiting orders the waiters for a key: the next one in this process, what each node has told them,
// and when to try again. It knows nothing of commands.
package waiting

import (
	"container/list"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
)

// A line is this Locker's waiters for a key. Among waiters for the key alone, only the first contends with
// other processes, and a lock that is released here goes to the first at once. Sets are in the line of each
// of their keys, and contend when no other set is in their way. Between the two the nodes' lines decide. A
// line exists while anybody waits.
type line struct {
	waiters  list.List          // of *Waiter: waiters for the key alone, in the order of their arrival
	sets     []set              // in that order as well
	holder   Holder             // a lock of this Locker that holds the key; nil: none
	yields   clockdrift.Instant // until then the first lets other processes go ahead
	watches  watches            // of the key
	last     error              // of the first waiter: the last refusal
	plan     *acquire.Plan      // of the first waiter
	asked    *list.Element      // the last called waiter that may join the holder
	standing standing           // at the nodes, for waiters for the key alone
}

func (l *line) first() *Waiter { return l.waiters.Front().Value.(*Waiter) }

// Lines are the lines for keys of a Locker, or for a semaphore.
type Lines struct {
	*Site
	Host Host

	mu    sync.Mutex // also guards the lines
	byKey map[string]*line
	// workers are the waiters that work for a lock: see [Lines.works].
	workers map[Holder][]*Waiter
	count   atomic.Int32 // of waiters
}

// at shows the line of waiters for a key alone, if there are any. ls.mu is held meanwhile.
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
	if w.IsSet() {
		w.standing = new(standing)
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
		if w.IsSet() {
			l.enterSet(w)
			continue
		}
		w.line, w.watches, w.standing = l, &l.watches, &l.standing
		l.enter(w)
		l.settle()
		ls.works(w)
		ls.judge(l)
	}
}

// enter puts w behind the waiters that are to be served before. An urgent waiter of a fair Locker may
// displace the first.
func (l *line) enter(w *Waiter) {
	before := l.waiters.Back()
	for before != nil && w.Fair && before.Value.(*Waiter).RankedFrom > w.RankedFrom {
		before = before.Prev()
	}
	if before != l.waiters.Back() {
		l.asked = nil // it may be in the way of called waiters
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

// leave takes w out of the lines, with the lock that it got or nil. Then the turn of the next waiters comes.
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

// takeOut takes w out, and returns the watches that nobody needs any more. ls.mu is held.
func (ls *Lines) takeOut(w *Waiter, lock Holder) (idle watches) {
	l := w.line
	if l == nil {
		w.standing.goesTo(nil)
		for _, key := range w.Keys {
			l := ls.byKey[key]
			l.wakeSets(l.leaveSet(w), lock == nil || w.Several) // else the keys are not free
		}
		return *w.watches
	}
	wasFirst := l.first() == w
	if l.asked == w.element {
		l.asked = w.element.Prev()
	}
	l.waiters.Remove(w.element)
	ls.worksNoMore(w)
	switch {
	case lock == nil || w.Several:
	case lock.Joins():
		if w.lead == nil {
			l.asked = nil
		}
		l.call()
	default:
		l.holder = lock // nobody works for the lock yet
	}
	w.calls, w.lead = nil, nil // or other waiters would never be freed
	w.withdraw()
	l.settle()
	switch {
	case l.waiters.Len() == 0:
		idle = l.watches
		*l = line{sets: l.sets}
	case wasFirst:
		if l.plan = nil; w.Several && lock != nil && w.How == HandedOver {
			own := w.Plan // it got a slot of another holder's: the plan for the rest is as it was
			l.plan = &own
		}
		l.first().nudge()
	}
	return idle
}

// look lets w try, if it is time to: then wait is 0. Else look returns for how long w has to wait, the news
// for which w listens, and whether w is the first of its process.
func (ls *Lines) look(w *Waiter) (wait time.Duration, news <-chan struct{}, first bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	switch {
	case w.state == promised:
		return math.MaxInt64, nil, true // a lock is on its way here
	case w.state == trying:
		return 0, nil, true
	case w.calls != nil:
		w.lead, w.calls, w.missed, w.state, w.How, w.Ticket = w.calls, nil, false, trying, Woken, nil
		if w.lead == w {
			w.stand()
		}
		return 0, nil, true
	}
	if first, wait = ls.isFirst(w); !first {
		if w.IsSet() && len(*w.watches) > 0 {
			news = (*w.watches)[0].News
		}
		return wait, news, false
	}
	now := w.Lines.Clock.Now()
	w.First(now)
	var yields clockdrift.Instant
	var holder Holder
	if l := w.line; l != nil {
		if yields, holder = l.yields, l.holder; l.plan != nil {
			w.Plan, l.plan = *l.plan, nil
		}
	}
	if w.missed && !w.Fair {
		w.Due = 0
	}
	switch wait = max(w.Due, yields).Sub(now); {
	case holder != nil:
		switch left := holder.Left(); {
		case left <= 0:
			w.line.holder = nil
			wait = max(w.Lines.Trip(), w.Due.Sub(now)) // its release may be about to leave
		case w.Fair || w.stood():
			wait = min(left, w.Due.Sub(now)) // the ticket has to be kept alive
		default:
			wait = left // by then the lock is handed over, or extended
		}
	case len(*w.watches) > 0 && !w.Deaf:
		news = (*w.watches)[0].News
	}
	if wait > 0 {
		return wait, news, true
	}
	w.state, w.missed, w.Tried = trying, false, now
	w.stand()
	w.watches.inLine(w.lineRank(), w.firstOnly(), w.Joins)
	w.watches.each((*KeyWatch).Arm) // before the try: announcements during the try count
	return 0, nil, true
}
