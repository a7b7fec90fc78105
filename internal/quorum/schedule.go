package quorum

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/node"
)

// A Schedule orders the renewals of a Locker's holds: one heap and one timer for all. A goroutine begins the
// due renewals one by one, and ends: a process that has fallen behind begins no more than it can do.
type Schedule struct {
	board *Board

	mu       sync.Mutex // guards all below
	renewals node.Heap[*Renewal]
	timer    *time.Timer
	fires    clockdrift.Instant // when the timer does; 0: it is not set
	busy     bool               // a goroutine begins the due renewals
	stopped  bool
}

// Set lets the next extension of r begin at due, in place of an earlier plan.
func (s *Schedule) Set(r *Renewal, due clockdrift.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	r.due = due
	if r.index == 0 {
		heap.Push(&s.renewals, r)
	} else {
		heap.Fix(&s.renewals, r.index-1)
	}
	s.arm()
}

func (s *Schedule) remove(r *Renewal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.index != 0 {
		heap.Remove(&s.renewals, r.index-1)
	}
	if len(s.renewals) == 0 && s.timer != nil {
		s.timer.Stop()
		s.fires = 0
	}
}

// arm sets the timer for the first. s.mu is held.
func (s *Schedule) arm() {
	if s.busy || len(s.renewals) == 0 {
		return
	}
	first, now := s.renewals[0].due, s.board.Clock.Now()
	if s.fires > now && s.fires <= first { // an overdue timer may have stood still in a sleep
		return
	}
	s.fires = first
	wait := max(first.Sub(now), time.Microsecond)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, func() { s.board.Go(s.begin) })
	} else {
		s.timer.Reset(wait)
	}
}

// begin begins the due extensions.
func (s *Schedule) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || s.stopped {
		return
	}
	s.busy = true
	for !s.stopped && len(s.renewals) > 0 && s.renewals[0].due <= s.board.Clock.Now() {
		r := heap.Pop(&s.renewals).(*Renewal)
		s.mu.Unlock()
		r.renew()
		s.mu.Lock()
	}
	s.busy, s.fires = false, 0
	s.arm()
}

// Stop ends the schedule. A begun extension goes on, and is joined with the Locker's work.
func (s *Schedule) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Idle reports whether nothing is planned, and no timer runs.
func (s *Schedule) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.renewals) == 0 && s.fires == 0 && !s.timer.Stop()
}

// Less orders renewals by when they are due: see [node.Heap].
func (r *Renewal) Less(other *Renewal) bool { return r.due < other.due }

// HeapIndex is the index of r in the schedule: see [node.Heap].
func (r *Renewal) HeapIndex() *int { return &r.index }
