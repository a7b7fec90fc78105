package waiting

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A Room bounds how many callers make the first try of an acquire at once: more would fill no larger
// batches, and with tens of thousands the process does little but hold them. Other callers wait for their
// turn, before they cost more than a goroutine. A caller leaves the room after its first try.
//
// A turn goes to the earliest caller. If the earliest has waited for a node time-out, or for half of its
// time, the load is more than can be done: then seven turns of eight go to the latest caller, which is
// likely to be there still. (Adaptive LIFO: B. Maurer, "Fail at Scale", ACM Queue 13, 2015.)
type Room struct {
	Clock   *clockdrift.Clock
	Batch   int                  // tries that go to a node together, at most
	Trip    func() time.Duration // how long a try takes, at least
	Closing <-chan struct{}

	mu     sync.Mutex
	inside int       // they try
	most   int       // callers in the room: a batch, and the tries that leave within a trip
	line   list.List // of *turn: waiting callers, the earliest in front
	passed int       // turns of the latest callers in a row
}

// tryEach is the time in which a try leaves.
const tryEach = 20 * time.Microsecond

// mostPassed is how many turns in a row may pass the earliest caller.
const mostPassed = 7

// A turn is a caller's in the line.
type turn struct {
	late  clockdrift.Instant // when the wait becomes too long
	comes chan struct{}      // closed when the caller may enter
}

// ErrFull is the fate of a caller without a turn in its time.
var ErrFull = fmt.Errorf("%w: its turn to ask the nodes did not come in time: ask for fewer at once, or give each more", fault.ErrBusy)

// Enter waits until there is room, for maxWait at most. Crowded: half of the room is taken. Without an error
// a Leave is wanted. Timeout is a node's.
func (r *Room) Enter(ctx context.Context, timeout, maxWait time.Duration) (crowded bool, err error) {
	r.mu.Lock()
	if r.inside >= r.most {
		r.most = r.Batch + int(r.Trip()/tryEach)
	}
	if r.inside < r.most {
		r.inside++
		crowded = r.inside > r.most/2
		r.mu.Unlock()
		return crowded, nil
	}
	has := maxWait
	if end, ok := ctx.Deadline(); ok {
		has = min(has, time.Until(end))
	}
	t := &turn{late: r.Clock.Now().Add(min(timeout, has/2)), comes: make(chan struct{})}
	place := r.line.PushBack(t)
	r.mu.Unlock()

	bound := time.NewTimer(maxWait)
	defer bound.Stop()
	select {
	case <-t.comes:
		return true, nil
	case <-bound.C:
		err = ErrFull
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", ErrFull, fault.EndOf(ctx))
	case <-r.Closing:
		err = fault.ErrClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-t.comes: // nevertheless: the next caller gets the turn
		r.leave()
	default:
		r.line.Remove(place)
	}
	return true, err
}

// Leave gives the room to the next in line.
func (r *Room) Leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave()
}

// leave is Leave. r.mu is held.
func (r *Room) leave() {
	r.inside--
	for r.inside < r.most && r.line.Len() > 0 {
		next := r.line.Front()
		if late := next.Value.(*turn).late; r.passed < mostPassed && r.Clock.Now() >= late {
			next = r.line.Back()
			r.passed++
		} else {
			r.passed = 0
		}
		r.inside++
		close(r.line.Remove(next).(*turn).comes)
	}
}

// Len counts the callers in the room, and the waiting ones.
func (r *Room) Len() (inside, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inside, r.line.Len()
}
