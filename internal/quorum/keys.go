package quorum

import (
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/node"
)

// A keyState is shared by the operations on a key: the order of its commands at each node, and its tries. It
// exists while a command for its key is under way anywhere.
type keyState struct {
	queues node.KeyQueues
	users  int        // operations under way
	out    *Operation // the try that left last, and the flight behind it
	next   *Flight
}

// Keys are the keys under way at a board. In an empty set everything is final everywhere.
type Keys struct {
	mu      sync.Mutex // also guards the states
	byKey   map[string]*keyState
	free    []*keyState
	awaited int           // holds, waits and announcements that Close waits for
	shut    bool          // nothing that may set a key is let in
	empty   chan struct{} // closed when all is final; nil: nobody waits

	flights   atomic.Int32 // forming ones
	undecided atomic.Int64 // acquires, extensions and releases without a quorum's answer
	hurried   atomic.Bool  // nobody waits for the answers of a minority
}

// enter returns the state of key, or nil if the operation sets keys and none is let in. Each call
// wants a Leave.
func (ks *Keys) enter(key string, nodes int, sets bool) *keyState {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if sets && ks.shut {
		return nil
	}
	l := ks.of(key, nodes)
	l.users++
	return l
}

// enterOthers returns the queues and states of the further keys, or lanes, of an operation with so many
// requests, which has entered with the first.
func (ks *Keys) enterOthers(others []any, nodes, requests int) (*node.More, []*keyState) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	states, queues := make([]*keyState, len(others)), make([]*node.KeyQueues, len(others))
	for i, key := range others {
		states[i] = ks.of(key.(string), nodes)
		states[i].users++
		queues[i] = &states[i].queues
	}
	return node.NewMore(queues, requests), states
}

// of returns the state of key. ks.mu is held.
func (ks *Keys) of(key string, nodes int) *keyState {
	l := ks.byKey[key]
	if l == nil {
		if n := len(ks.free); n > 0 {
			l, ks.free = ks.free[n-1], ks.free[:n-1]
			l.queues.Key = key
		} else {
			l = &keyState{queues: *node.NewKeyQueues(key, nodes)}
		}
		ks.byKey[key] = l
	}
	return l
}

// maxFree bounds the states that are kept after a burst.
const maxFree = 1024

// Leave gives up one use of l, and of others.
func (ks *Keys) Leave(l *keyState, others ...*keyState) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.leave(l)
	for _, other := range others {
		ks.leave(other)
	}
}

// leave gives up one use of l. ks.mu is held.
func (ks *Keys) leave(l *keyState) {
	l.users--
	if l.users > 0 {
		return
	}
	delete(ks.byKey, l.queues.Key)
	l.out = nil
	if len(ks.free) < maxFree {
		l.queues.Key = ""
		ks.free = append(ks.free, l)
	}
	ks.signal()
}

// Await counts holds and waits that Close waits for, besides operations under way.
func (ks *Keys) Await(change int) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.awaited += change
	ks.signal()
}

// Shut lets in nothing more that may set a key, and returns a channel that is closed once nothing is under
// way or awaited: see Hurry.
func (ks *Keys) Shut() <-chan struct{} {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.shut = true
	if ks.empty == nil {
		ks.empty = make(chan struct{})
	}
	empty := ks.empty
	ks.signal()
	return empty
}

// Hurry lets Shut be over once a quorum has answered all operations under way: the other nodes have had
// their time.
func (ks *Keys) Hurry() {
	ks.hurried.Store(true)
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.signal()
}

// decided notes the decision of an operation that needs a quorum.
func (ks *Keys) decided() {
	if ks.undecided.Add(-1) == 0 && ks.hurried.Load() {
		ks.mu.Lock()
		defer ks.mu.Unlock()
		ks.signal()
	}
}

func (ks *Keys) signal() {
	over := len(ks.byKey) == 0 || ks.hurried.Load() && ks.undecided.Load() == 0
	if ks.empty != nil && over && ks.awaited == 0 {
		close(ks.empty)
		ks.empty = nil
	}
}

// Left is the unfinished work of keys: nothing, when all is final everywhere.
type Left struct{ States, Spare, Flights, Awaited, Users int }

// Left returns the unfinished work of all keys.
func (ks *Keys) Left() Left {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	l := Left{States: len(ks.byKey), Spare: len(ks.free), Flights: int(ks.flights.Load()), Awaited: ks.awaited}
	for _, s := range ks.byKey {
		l.Users = max(l.Users, s.users)
	}
	return l
}
