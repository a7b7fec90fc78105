package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// ages hold a line's requests that have no final answer, and one timer for all of them: a
// timer for each request costs a tenth of the throughput. The timer is not stopped when the
// last request leaves; it fires once more, in vain, and rests.
//
// Requests that have the same time are due in the order in which they come, so each such
// time has a list of its own: to put one in costs the same however many there are. One
// sorted list did not: a hundred thousand renewals that had waited in the queue were walked
// past by everything that came after them.
type ages struct {
	lists  [4]ageList
	timer  *time.Timer
	armed  bool
	fires  clockdrift.Instant // when the timer does, if armed
	expire func()             // takes out those that are due, and calls arm
}

// An ageList holds requests, the one that is due first in front.
type ageList struct {
	patience       time.Duration // of the request that came first
	oldest, newest *request
}

// list finds the list for requests with this much time: their own, or else an empty one, or
// else the last, in which they are put in their order one by one.
func (a *ages) list(patience time.Duration) (found uint8) {
	found = uint8(len(a.lists) - 1)
	for i := range a.lists {
		switch l := &a.lists[i]; {
		case l.oldest == nil:
			found = min(found, uint8(i))
		case l.patience == patience:
			return uint8(i)
		}
	}
	return found
}

// add puts r in. Its time counts from when it comes here, so it is not due before those
// with the same time that came earlier.
func (a *ages) add(r *request, clock *clockdrift.Clock) {
	r.list = a.list(r.op.patience())
	l := &a.lists[r.list]
	after := l.newest
	if after == nil {
		l.patience = r.op.patience()
	}
	if after != nil && after.op.patience() == r.op.patience() {
		r.due = max(r.due, after.due)
	}
	for after != nil && after.due > r.due {
		after = after.older
	}
	r.older = after
	if after == nil {
		r.newer, l.oldest = l.oldest, r
	} else {
		r.newer, after.newer = after.newer, r
	}
	if r.newer == nil {
		l.newest = r
	} else {
		r.newer.older = r
	}
	if !a.armed || r.due < a.fires {
		a.arm(clock)
	}
}

// remove takes r out.
func (a *ages) remove(r *request) {
	l := &a.lists[r.list]
	if r.older == nil {
		l.oldest = r.newer
	} else {
		r.older.newer = r.newer
	}
	if r.newer == nil {
		l.newest = r.older
	} else {
		r.newer.older = r.older
	}
	r.older, r.newer = nil, nil
}

// oldest is the request that is due first, or nil.
func (a *ages) oldest() (first *request) {
	for i := range a.lists {
		if r := a.lists[i].oldest; r != nil && (first == nil || r.due < first.due) {
			first = r
		}
	}
	return first
}

// arm sets the timer for the oldest.
func (a *ages) arm(clock *clockdrift.Clock) {
	first := a.oldest()
	a.armed = first != nil
	if !a.armed {
		return
	}
	a.fires = first.due
	wait := max(0, a.fires.Sub(clock.Now()))
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.expire)
	} else {
		a.timer.Reset(wait)
	}
}

// stop ends the timer.
func (a *ages) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
