package quorum

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Left is the rest of the lease, and at most 0 if the hold is over.
func (h *Hold) Left() time.Duration {
	now := h.observe()
	defer h.mu.Unlock()
	return h.rest(now)
}

// Rest is Left, but ends no hold: the caller may have a mutex that an end takes.
func (h *Hold) Rest() time.Duration {
	now := h.Board.Clock.Fresh()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rest(now)
}

// rest is what is left of the lease. h.mu is held.
func (h *Hold) rest(now clockdrift.Instant) time.Duration {
	if h.ended != nil {
		return min(0, h.until.Sub(now))
	}
	return h.until.Sub(now)
}

// Deadline is when the lease ends, drift taken off.
func (h *Hold) Deadline() clockdrift.Instant { return clockdrift.Instant(h.due.Load()) }

// Fence is the number that the hold has; 0: none.
func (h *Hold) Fence() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.number
}

// Ended is why the hold is known to be over, or never began; nil: it goes on.
func (h *Hold) Ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// Over is why the hold is over by now, and the same with details; nil: it goes on.
func (h *Hold) Over() (ended, cause error) {
	h.observe()
	defer h.mu.Unlock()
	return h.ended, h.cause
}

// Drops reports whether the hold is over at this moment. It is not where another goroutine has the
// hold's mutex, which may be waiting for one that the caller has.
func (h *Hold) Drops(now clockdrift.Instant) bool {
	if !h.mu.TryLock() {
		return false
	}
	defer h.mu.Unlock()
	h.check(now)
	return h.ended != nil
}

// GiveUp ends the hold for its user, once. Close waits from then on, until it is told not to: a
// release that it does not find among the holds any more may not be under way yet.
func (h *Hold) GiveUp(why Why) (lost bool, err error) {
	now := h.observe()
	defer h.mu.Unlock()
	switch {
	case h.given:
		return false, fault.ErrReleased
	case h.ended == fault.ErrClosed: //nolint:errorlint // ended holds the sentinel itself
		return false, fault.ErrClosed
	}
	h.given = true
	h.Board.Keys.Await(+1)
	lost = h.ended != nil
	h.end(why, now)
	return lost, nil
}

// Take ends the hold without its user, and reports whether it was not over before. Given: it is as
// if the user had given it up.
func (h *Hold) Take(why Why, given bool) bool {
	now := h.observe()
	defer h.mu.Unlock()
	goesOn := h.ended == nil
	h.given = h.given || given && goesOn
	h.end(why, now)
	return goesOn
}

// Resume lets a renewal begin soon, if there is one, because timers stood still while the machine
// slept. It returns the rest of the lease.
func (h *Hold) Resume() time.Duration {
	now := h.observe()
	defer h.mu.Unlock()
	if h.ended == nil && h.Renewal != nil {
		h.Renewal.hurry(now)
	}
	return h.rest(now)
}

// ToExtend makes the operation that prolongs the lease to ttl, cut to the longest hold; nil: the
// hold is over, or the lease runs to the end of the longest one already.
func (h *Hold) ToExtend(ttl time.Duration) (op *Operation, ended error) {
	now := h.observe()
	defer h.mu.Unlock()
	if h.ended != nil {
		return nil, h.ended
	}
	if left := h.ends.Sub(now).Truncate(time.Millisecond); ttl > left {
		if left < protocol.MinTTL || clockdrift.Deadline(now, left, h.Board.Drift) <= h.until {
			return nil, nil
		}
		ttl = left
	}
	h.longest = max(h.longest, ttl)
	return h.extension(ttl), nil
}

// extension makes the operation that prolongs the lease to ttl. h.mu is held.
func (h *Hold) extension(ttl time.Duration) *Operation {
	op := new(Operation)
	op.Prepare(h, h.Kind.Extend, ttl)
	op.Ends = h.until
	op.Encode(nil)
	if h.number != 0 {
		op.carryAlong(h.number)
	}
	return op
}

// ToLook makes the operation that asks whether the nodes have the token.
func (h *Hold) ToLook() *Operation {
	op := new(Operation)
	op.Prepare(h, h.Kind.Look, h.Longest())
	op.Encode(nil)
	return op
}
