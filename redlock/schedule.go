package redlock

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A schedule says when the locks of a Locker are renewed: one heap and one timer for all. A
// goroutine begins the due renewals one by one, and ends: a process that has fallen behind
// begins no more than it can do.
type schedule struct {
	clock *clockdrift.Clock
	wake  func() // starts begin, in a goroutine that Close waits for

	mu       sync.Mutex // after an attempt's
	renewals renewalHeap
	timer    *time.Timer
	fires    clockdrift.Instant // when the timer does; 0: it is not set
	busy     bool               // a goroutine begins the due renewals
	stopped  bool
}

// set lets the next attempt of r begin at due, in place of an earlier plan.
func (s *schedule) set(r *renewal, due clockdrift.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	r.due = due
	if r.place == 0 {
		heap.Push(&s.renewals, r)
	} else {
		heap.Fix(&s.renewals, r.place-1)
	}
	s.arm()
}

func (s *schedule) remove(r *renewal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.place != 0 {
		heap.Remove(&s.renewals, r.place-1)
	}
	if len(s.renewals) == 0 && s.timer != nil {
		s.timer.Stop()
		s.fires = 0
	}
}

// arm sets the timer for the first. s.mu is held.
func (s *schedule) arm() {
	if s.busy || len(s.renewals) == 0 {
		return
	}
	first, now := s.renewals[0].due, s.clock.Now()
	if s.fires > now && s.fires <= first { // an overdue timer may have stood still in a sleep
		return
	}
	s.fires = first
	wait := max(first.Sub(now), time.Microsecond)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.wake)
	} else {
		s.timer.Reset(wait)
	}
}

// begin begins the attempts that are due.
func (s *schedule) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || s.stopped {
		return
	}
	s.busy = true
	for !s.stopped && len(s.renewals) > 0 && s.renewals[0].due <= s.clock.Now() {
		r := heap.Pop(&s.renewals).(*renewal)
		s.mu.Unlock()
		r.attempt()
		s.mu.Lock()
	}
	s.busy, s.fires = false, 0
	s.arm()
}

// stop ends the schedule. A begun attempt goes on, and is joined with the Locker's work.
func (s *schedule) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// A renewalHeap is a heap of renewals by when they are due.
type renewalHeap []*renewal

func (h renewalHeap) Len() int           { return len(h) }
func (h renewalHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h renewalHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *renewalHeap) Push(r any) {
	*h = append(*h, r.(*renewal))
	(*h)[len(*h)-1].place = len(*h)
}

func (h *renewalHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	r.place = 0
	return r
}
