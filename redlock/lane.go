package redlock

import (
	"sync"
	"sync/atomic"
)

// A lane is the single file in which the commands for one key go to each node. With
// several batches out on several connections, order does not come by itself; without
// it a release overtakes its acquire, or a retry is refused by its own previous try.
type lane struct {
	key   string
	users int        // operations under way; guarded by lanes.mu
	out   *operation // the try that left last, and the flight that waits for it; likewise
	next  *flight
	// at is the order at each node. Its elements are guarded by the nodes' mutexes.
	at []order
}

// An order is who may go to one node with a command for the key, one at a time.
//
// Holders go before tries that have not left: otherwise a process that asks for a key more
// often than a node answers would starve its own holder, whose renewal and release would stand
// behind all of its tries. Requests with one token stay in their order, or a release could run
// before the acquire that it undoes.
type order struct {
	front   *request    // the one whose turn it is
	holders requestList // what goes next: extensions, releases, hand-overs
	tries   requestList // acquires, and what has to stay behind one of them
}

// add lets r wait for its turn.
func (o *order) add(r *request) {
	if r.op.task.tries || o.tries.has(r) {
		o.tries.push(r)
	} else {
		o.holders.push(r)
	}
}

// yields reports whether the request in front makes way for r: a try that has not left.
func (o *order) yields(r *request) bool {
	f := o.front
	return f.op.task.tries && f.stage == queued && !r.op.task.tries && !f.concerns(r) && !o.tries.has(r)
}

// next takes out the request whose turn is next, or nil. Requests that ran out of time are
// stepped over.
func (o *order) next() *request {
	for {
		r := o.holders.pop()
		if r == nil {
			r = o.tries.pop()
		}
		if r == nil || r.stage != final {
			return r
		}
	}
}

// A requestList is a first-in, first-out list of the requests that wait.
type requestList struct{ first, last *request }

func (l *requestList) push(r *request) {
	r.behind = nil
	if l.last == nil {
		l.first = r
	} else {
		l.last.behind = r
	}
	l.last = r
}

// unpop puts r in front.
func (l *requestList) unpop(r *request) {
	r.behind = l.first
	l.first = r
	if l.last == nil {
		l.last = r
	}
}

func (l *requestList) pop() *request {
	r := l.first
	if r == nil {
		return nil
	}
	if l.first = r.behind; l.first == nil {
		l.last = nil
	}
	r.behind = nil
	return r
}

// has reports whether a request with the token of r waits.
func (l *requestList) has(r *request) bool {
	for other := l.first; other != nil; other = other.behind {
		if other.concerns(r) {
			return true
		}
	}
	return false
}

// lanes are the lanes of a Locker. A lane exists while a command for its key is
// under way anywhere, so an empty set means that everything is final everywhere.
type lanes struct {
	mu    sync.Mutex
	byKey map[string]*lane
	free  []*lane
	owed  int           // claims and announcements that Close waits for
	shut  bool          // nothing that may set a key is let in
	empty chan struct{} // closed when all is final, if somebody waits for that

	flights atomic.Int32 // that form, for whoever comes where there is none
}

// enter returns the lane for key, or nil if the operation sets keys and none is let
// in. Each call wants a leave.
func (ls *lanes) enter(key string, nodes int, sets bool) *lane {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if sets && ls.shut {
		return nil
	}
	l := ls.of(key, nodes)
	l.users++
	return l
}

// of returns the lane for key. ls.mu is held.
func (ls *lanes) of(key string, nodes int) *lane {
	l := ls.byKey[key]
	if l == nil {
		if n := len(ls.free); n > 0 {
			l, ls.free = ls.free[n-1], ls.free[:n-1]
			l.key = key
		} else {
			l = &lane{key: key, at: make([]order, nodes)}
		}
		ls.byKey[key] = l
	}
	return l
}

// maxFreeLanes bounds what a burst leaves behind.
const maxFreeLanes = 1024

// leave gives up one use of l.
func (ls *lanes) leave(l *lane) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.users--
	if l.users > 0 {
		return
	}
	delete(ls.byKey, l.key)
	l.out = nil
	if len(ls.free) < maxFreeLanes {
		l.key = ""
		ls.free = append(ls.free, l)
	}
	ls.signal()
}

// owe counts what Close waits for besides what is under way.
func (ls *lanes) owe(change int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.owed += change
	ls.signal()
}

// calm lets nothing in any more that may set a key, and returns a channel that is
// closed once nothing is under way or owed.
func (ls *lanes) calm() <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.shut = true
	if ls.empty == nil {
		ls.empty = make(chan struct{})
	}
	empty := ls.empty
	ls.signal()
	return empty
}

func (ls *lanes) signal() {
	if ls.empty != nil && len(ls.byKey) == 0 && ls.owed == 0 {
		close(ls.empty)
		ls.empty = nil
	}
}
