package quorum

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
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

// rest is the rest of the lease. h.mu is held.
func (h *Hold) rest(now clockdrift.Instant) time.Duration {
	left := h.life.Until().Sub(now)
	if h.life.Phase() == lease.Over {
		return min(0, left)
	}
	return left
}

// Deadline is when the lease ends, drift taken off.
func (h *Hold) Deadline() clockdrift.Instant { return clockdrift.Instant(h.due.Load()) }

// Fence is the hold's number; 0: none.
func (h *Hold) Fence() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life.Fence()
}

// Ended is why the hold is known to be over, or never began; nil: neither.
func (h *Hold) Ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended()
}

// Over is why the hold is over by now, and the same with details; nil: the hold goes on.
func (h *Hold) Over() (ended, cause error) {
	h.observe()
	defer h.mu.Unlock()
	return h.ended(), h.cause
}

// Drops reports whether the hold is over at this moment. False also where another goroutine has the hold's
// mutex, for that goroutine may wait for a mutex of the caller's.
func (h *Hold) Drops(now clockdrift.Instant) bool {
	if !h.mu.TryLock() {
		return false
	}
	defer h.mu.Unlock()
	h.check(now)
	return h.life.Phase() == lease.Over
}

// GiveUp ends the hold for its user, once. Close waits from then on, until the release is under way: the
// release is not found among the holds any more.
func (h *Hold) GiveUp(why lease.Why) (lost bool, err error) {
	now := h.observe()
	defer h.mu.Unlock()
	switch {
	case h.given:
		return false, fault.ErrReleased
	case h.life.Why() == lease.Closed:
		return false, fault.ErrClosed
	}
	h.given = true
	h.Board.Keys.Await(+1)
	lost = h.life.Phase() == lease.Over
	h.end(why, now)
	return lost, nil
}

// Take ends the hold without its user. It reports false if the hold was over before. Given: as if the user
// had given it up.
func (h *Hold) Take(why lease.Why, given bool) bool {
	now := h.observe()
	defer h.mu.Unlock()
	goesOn := h.life.Phase() != lease.Over
	h.given = h.given || given && goesOn
	h.end(why, now)
	return goesOn
}

// Resume makes the renewal due soon, if there is one, because timers stood still while the machine slept. It
// returns the rest of the lease.
func (h *Hold) Resume() time.Duration {
	now := h.observe()
	defer h.mu.Unlock()
	if h.life.Phase() == lease.Held && h.Renewal != nil {
		h.Renewal.hurry(now)
	}
	return h.rest(now)
}

// ToExtend makes the operation that prolongs the lease to ttl, cut to MaxHold; nil: the hold is over, or the
// lease runs to MaxHold already.
func (h *Hold) ToExtend(ttl time.Duration) (op *Operation, ended error) {
	now := h.observe()
	defer h.mu.Unlock()
	if ended := h.ended(); ended != nil {
		return nil, ended
	}
	if left := h.life.Limit().Sub(now).Truncate(time.Millisecond); ttl > left {
		if left < protocol.MinTTL || h.life.Grants(now, left) <= h.life.Until() {
			return nil, nil
		}
		ttl = left
	}
	h.life.Asks(ttl)
	return h.extension(ttl), nil
}

// extension makes the operation that prolongs the lease to ttl. h.mu is held.
func (h *Hold) extension(ttl time.Duration) *Operation {
	op := new(Operation)
	op.Prepare(h, h.Kind.Extend, ttl)
	op.Ends = h.life.Until()
	op.Encode(nil)
	if fence := h.life.Fence(); fence != 0 {
		op.carryAlong(fence)
	}
	return op
}

// ToLook makes the operation that asks the nodes for the token.
func (h *Hold) ToLook() *Operation {
	op := new(Operation)
	op.Prepare(h, h.Kind.Look, h.Longest())
	op.Encode(nil)
	return op
}
