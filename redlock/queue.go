package redlock

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A queue is this Locker's waiters for one key, in the order in which they came. Only the
// first contends for the key with other processes, and a lock that is released here goes
// to the first straight away (see [Lock.handOver]). A queue exists while anybody waits.
type queue struct {
	line   list.List          // of *waiter
	holder *Lock              // who has the key, if it is a lock of this Locker
	row    int                // hand-overs in a row
	rest   clockdrift.Instant // until then the first lets other processes go ahead
	vigil  *vigil             // nil: nothing that is announced was waited for yet
	last   error              // what the first heard last
}

// maxRow is how many hand-overs there may be in a row. Then it is other processes' turn.
const maxRow = 8

func (q *queue) first() *waiter { return q.line.Front().Value.(*waiter) }

// queues are the queues of a Locker.
type queues struct {
	mu    sync.Mutex // also guards what is in the queues
	byKey map[string]*queue
	count atomic.Int32 // of them, for whoever has no waiter to look for
}

// has reports whether somebody waits for key.
func (qs *queues) has(key string) bool {
	if qs.count.Load() == 0 {
		return false
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.byKey[key] != nil
}

// join puts w at the end of the line for its key.
func (qs *queues) join(w *waiter) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byKey[w.key]
	if q == nil {
		q = &queue{}
		if qs.byKey == nil {
			qs.byKey = make(map[string]*queue)
		}
		qs.byKey[w.key] = q
		qs.count.Add(1)
	}
	w.queue, w.place = q, q.line.PushBack(w)
	if q.line.Len() == 1 {
		close(w.turn)
	}
}

// leave takes w out of the line, with the lock that it has got or nil. The next one's
// turn comes.
func (qs *queues) leave(w *waiter, lock *Lock) {
	qs.mu.Lock()
	q := w.queue
	wasFirst := q.line.Front() == w.place
	q.line.Remove(w.place)
	if lock != nil {
		q.holder = lock
	}
	var idle *vigil
	switch {
	case q.line.Len() == 0:
		delete(qs.byKey, w.key)
		qs.count.Add(-1)
		idle, q.vigil = q.vigil, nil
	case wasFirst:
		close(q.first().turn)
	}
	qs.mu.Unlock()
	if idle != nil {
		idle.end()
	}
}

// heir returns the waiter to whom a lock on key that is being released goes: he is
// promised a gift. It is nil if nobody waits, or if it is other processes' turn.
func (qs *queues) heir(key string) *waiter {
	if qs.count.Load() == 0 {
		return nil
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byKey[key]
	if q == nil {
		return nil
	}
	q.holder = nil
	w := q.next()
	switch {
	case w == nil:
		q.first().missed = true
		return nil
	case q.row >= maxRow:
		q.row = 0
		q.rest = w.locker.clock.Now().Add(w.locker.courtesy())
		q.first().nudge()
		return nil
	}
	q.row++
	w.state = promised
	return w
}

// next is the first waiter who is not about to leave, or nil if the first of all is
// asking the nodes himself at the moment.
func (q *queue) next() *waiter {
	for e := q.line.Front(); e != nil; e = e.Next() {
		switch w := e.Value.(*waiter); {
		case w.state != parked:
			return nil
		case w.ctx.Err() == nil:
			return w
		}
	}
	return nil
}

// hurry ends the pause that the first waiter for key makes for other processes, if a
// release has just shown that there are none.
func (qs *queues) hurry(key string) {
	if qs.count.Load() == 0 {
		return
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byKey[key]
	if q == nil || q.rest == 0 {
		return
	}
	if w := q.first(); !w.locker.others() {
		q.rest = 0
		w.nudge()
	}
}

// ahead returns what the first waiter has before it: a lock of this Locker, other
// processes' turn, and what will be heard of the key.
func (qs *queues) ahead(w *waiter) (holder *Lock, rest clockdrift.Instant, v *vigil) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return w.queue.holder, w.queue.rest, w.queue.vigil
}

// forget notes that a lock of this Locker is over.
func (qs *queues) forget(w *waiter, holder *Lock) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.queue.holder == holder {
		w.queue.holder = nil
	}
}

// leap lets w try by itself, unless it was promised a lock.
func (qs *queues) leap(w *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.state == promised {
		return false
	}
	w.state, w.missed = trying, false
	w.queue.row = 0
	if w.queue.vigil != nil {
		w.queue.vigil.arm() // before the try: what is announced meanwhile counts
	}
	return true
}

// park makes w a waiter again to whom a lock can be handed over.
func (qs *queues) park(w *waiter) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w.state = parked
}

// refuse makes w take no lock any more, unless it was promised one.
func (qs *queues) refuse(w *waiter) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.state == promised {
		return false
	}
	w.state = trying
	return true
}

// said returns what the waiters for w's key heard last.
func (qs *queues) said(w *waiter) error {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w.queue.last != nil {
		return w.queue.last
	}
	return &stateError{"acquire", w.key, ErrTaken}
}

// failed notes that a try of the first waiter has failed because of err: the token has
// the key. It reports whether that is a lock of this Locker, and whether one was
// released meanwhile. What is announced of the key is heard from now on.
func (qs *queues) failed(w *waiter, token string, err error) (v *vigil, local, missed bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := w.queue
	w.state, q.last = parked, err
	missed, w.missed = w.missed, false
	if lock := w.locker.holds.with(token); lock != nil && lock.Valid() {
		q.holder = lock
	}
	if q.holder == nil && !missed && q.vigil == nil {
		q.vigil = w.locker.listen(w.key)
	}
	return q.vigil, q.holder != nil, missed
}
