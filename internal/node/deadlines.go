package node

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// deadlines hold a channel's requests without a final answer, and one timer for all of them: a timer for
// each request costs a tenth of the throughput. The timer keeps running when the last request leaves; it
// fires once more, in vain, and rests.
//
// Requests with equal patience are due in the order of their arrival, so each patience has a list of its
// own: adding a request costs the same however many wait. (With a single sorted list, every newcomer walked
// past a hundred thousand renewals in the queue.)
type deadlines struct {
	lists  [4]requestsByDue
	timer  *time.Timer
	armed  bool
	fires  clockdrift.Instant // when the timer does, if armed
	expire func()             // takes out the requests that are due, and calls arm
}

// A requestsByDue holds requests, the first due in front.
type requestsByDue struct {
	patience       time.Duration // of the first request
	oldest, newest *Request
}

// list finds the list for this patience: its own, or an empty one, or the last, in which requests are sorted
// in one by one.
func (d *deadlines) list(patience time.Duration) (found uint8) {
	found = uint8(len(d.lists) - 1)
	for i := range d.lists {
		switch l := &d.lists[i]; {
		case l.oldest == nil:
			found = min(found, uint8(i))
		case l.patience == patience:
			return uint8(i)
		}
	}
	return found
}

// add puts r in. Its time counts from now, so r is due after earlier requests with the same patience.
func (d *deadlines) add(r *Request, clock *clockdrift.Clock) {
	r.list = d.list(r.Patience())
	l := &d.lists[r.list]
	after := l.newest
	if after == nil {
		l.patience = r.Patience()
	}
	if after != nil && after.Patience() == r.Patience() {
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
	if !d.armed || r.due < d.fires {
		d.arm(clock)
	}
}

// remove takes r out.
func (d *deadlines) remove(r *Request) {
	l := &d.lists[r.list]
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
func (d *deadlines) oldest() (first *Request) {
	for i := range d.lists {
		if r := d.lists[i].oldest; r != nil && (first == nil || r.due < first.due) {
			first = r
		}
	}
	return first
}

// arm sets the timer for the oldest.
func (d *deadlines) arm(clock *clockdrift.Clock) {
	first := d.oldest()
	d.armed = first != nil
	if !d.armed {
		return
	}
	d.fires = first.due
	wait := max(0, d.fires.Sub(clock.Now()))
	if d.timer == nil {
		d.timer = time.AfterFunc(wait, d.expire)
	} else {
		d.timer.Reset(wait)
	}
}

// stop ends the timer.
func (d *deadlines) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
