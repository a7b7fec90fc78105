package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// An ageList holds a node's requests that have no final answer, the one that is due
// first in front, and one timer for all of them: a timer for each request costs a
// tenth of the throughput. The timer is not stopped when the list runs empty; it
// fires once more, in vain, and rests.
type ageList struct {
	oldest, newest *request
	timer          *time.Timer
	armed          bool
	fires          clockdrift.Instant // when the timer does, if armed
	expire         func()             // takes out those that are due, and calls arm
}

// add puts r in by its time, which is last as a rule.
func (a *ageList) add(r *request, clock *clockdrift.Clock) {
	after := a.newest
	for after != nil && after.due > r.due {
		after = after.older
	}
	r.older = after
	if after == nil {
		r.newer, a.oldest = a.oldest, r
	} else {
		r.newer, after.newer = after.newer, r
	}
	if r.newer == nil {
		a.newest = r
	} else {
		r.newer.older = r
	}
	if !a.armed || r.due < a.fires {
		a.arm(clock)
	}
}

// remove takes r out.
func (a *ageList) remove(r *request) {
	if r.older == nil {
		a.oldest = r.newer
	} else {
		r.older.newer = r.newer
	}
	if r.newer == nil {
		a.newest = r.older
	} else {
		r.newer.older = r.older
	}
	r.older, r.newer = nil, nil
}

// arm sets the timer for the oldest.
func (a *ageList) arm(clock *clockdrift.Clock) {
	a.armed = a.oldest != nil
	if !a.armed {
		return
	}
	a.fires = a.oldest.due
	wait := max(0, a.fires.Sub(clock.Now()))
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.expire)
	} else {
		a.timer.Reset(wait)
	}
}

// stop ends the timer.
func (a *ageList) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
