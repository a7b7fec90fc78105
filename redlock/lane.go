package redlock

import "sync"

// A lane is the single file in which the commands for one key go to each node. With
// several batches out on several connections, order does not come by itself; without
// it a release overtakes its acquire, or a retry is refused by its own previous try.
type lane struct {
	key   string
	users int // operations under way; guarded by lanes.mu

	// last holds, for each node, the request that went in last and has no final
	// answer yet. Its elements are guarded by the nodes' mutexes.
	last []*request
}

// lanes are the lanes of a Locker. A lane exists while a command for its key is
// under way anywhere, so an empty set means that everything is final everywhere.
type lanes struct {
	mu    sync.Mutex
	byKey map[string]*lane
	free  []*lane
	debts int           // clean-ups that wait for their next try
	shut  bool          // nothing that may set a key is let in
	empty chan struct{} // closed when all is final, if somebody waits for that
}

// enter returns the lane for key, or nil if the operation sets keys and none is let
// in. Each call wants a leave.
func (ls *lanes) enter(key string, nodes int, sets bool) *lane {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if sets && ls.shut {
		return nil
	}
	l := ls.byKey[key]
	if l == nil {
		if n := len(ls.free); n > 0 {
			l, ls.free = ls.free[n-1], ls.free[:n-1]
			l.key = key
		} else {
			l = &lane{key: key, last: make([]*request, nodes)}
		}
		ls.byKey[key] = l
	}
	l.users++
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
	if len(ls.free) < maxFreeLanes {
		l.key = ""
		ls.free = append(ls.free, l)
	}
	ls.signal()
}

// owe counts the clean-ups that wait for their next try.
func (ls *lanes) owe(change int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.debts += change
	ls.signal()
}

// calm lets nothing in any more that may set a key, and returns a channel that is
// closed once nothing is under way.
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
	if ls.empty != nil && len(ls.byKey) == 0 && ls.debts == 0 {
		close(ls.empty)
		ls.empty = nil
	}
}
