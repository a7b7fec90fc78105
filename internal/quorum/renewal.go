package quorum

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Renewal renews a hold. It has no goroutine and no timer of its own: the [Schedule] begins each
// extension, and the deciding vote sets the time of the next.
type Renewal struct {
	hold *Hold
	ttl  time.Duration

	// Guarded by Schedule.mu.
	due   clockdrift.Instant
	index int // in the schedule, from 1; 0: not there

	// Guarded by Hold.mu.
	failures int32      // in a row
	failed   *Operation // the last extension, if it failed
	last     *Operation // the last extension, until all nodes have answered
}

// Renew makes the hold renew itself, for ttl at a time, from its beginning.
func (h *Hold) Renew(ttl time.Duration) { h.Renewal = &Renewal{hold: h, ttl: ttl} }

// begin starts the renewal of a hold. Hold.mu is held.
func (r *Renewal) begin(start clockdrift.Instant) {
	r.plan(start.Add(r.between(r.ttl/earliestRenewal, r.ttl/RenewalShare-r.slot())))
}

// A lease is renewed at a random moment, before a third of the TTL has passed: two thirds are left for more.
// Locks that were taken together must not be renewed together, or a process with many locks has to renew
// them as fast as it took them. So the first moment is drawn from a wide span, and a shorter hold is never
// renewed; later moments are drawn from a narrow span, because each renewal costs.
const (
	RenewalShare    = 3
	earliestRenewal = 6
	EarliestAgain   = 4
)

// between returns a random duration from least up to most.
func (r *Renewal) between(least, most time.Duration) time.Duration {
	return least + r.hold.Board.Jitter(most-least)
}

// RenewalSlots is the number of moments in a TTL at which renewals are due: renewals of one moment share
// batches and commands.
const RenewalSlots = 1024

// slot is the time between two of these moments.
func (r *Renewal) slot() time.Duration { return r.ttl / RenewalSlots }

// plan lets the next extension begin in the slot behind due. Hold.mu is held.
func (r *Renewal) plan(due clockdrift.Instant) {
	slot := clockdrift.Instant(r.slot())
	r.hold.Board.Renewals.Set(r, due+slot-due%slot)
}

// renew asks the nodes to prolong the lease.
func (r *Renewal) renew() {
	h := r.hold
	now := h.observe()
	ttl := min(r.ttl, h.life.Limit().Sub(now).Truncate(time.Millisecond)) // within the longest hold
	switch {
	case h.life.Phase() == lease.Over || ttl < protocol.MinTTL:
		h.mu.Unlock()
		return
	case r.last != nil && r.last.Verdict == lease.Undecided && r.last.unsent(): // another extension would come no sooner
		r.plan(now.Add(r.pause(now)))
		h.mu.Unlock()
		return
	}
	op := h.extension(ttl)
	op.whole = (*Operation).renewed
	op.Attempt = r.failures + 1
	r.last = op
	h.mu.Unlock()
	op.AskAll()
}

// decided plans the extension after a decided one. Hold.mu is held.
func (r *Renewal) decided(op *Operation, now clockdrift.Instant) {
	if op.Verdict == lease.Carried {
		r.failures, r.failed = 0, nil
		r.plan(op.Start.Add(r.between(r.ttl/EarliestAgain, r.ttl/RenewalShare-r.slot())))
		return
	}
	r.failures++
	r.failed = op
	r.plan(now.Add(r.pause(now)))
}

// pause is the time from a failed extension to the next: a part of the rest of the lease, some twenty for
// any TTL; at least a quarter of the node time-out, in which nodes recover, unless the lease has little more
// left. Hold.mu is held.
func (r *Renewal) pause(now clockdrift.Instant) time.Duration {
	left := r.hold.life.Until().Sub(now)
	return max(r.between(left/8, left/4+1), min(r.hold.Board.NodeTimeout(r.ttl)/4, left/2))
}

// hurry lets an extension begin soon, at a random moment for each hold. Hold.mu is held.
func (r *Renewal) hurry(now clockdrift.Instant) {
	r.plan(now.Add(r.between(0, r.hold.life.Until().Sub(now)/8+1)))
}

// renewed tells of an extension that all nodes have answered. After a hopeless extension it asks who holds
// the key.
func (op *Operation) renewed() {
	h := op.Hold
	h.observe()
	if h.Renewal.last == op {
		h.Renewal.last = nil
	}
	beaten := h.life.Phase() == lease.Held && op.Verdict == lease.Missed && op.beaten()
	h.mu.Unlock()
	h.Keeper.Renewed(op)
	if beaten {
		look := h.ToLook()
		look.whole = (*Operation).revoked
		look.AskAll()
	}
}

// revoked ends a hold with tombstones at so many nodes that the others are no quorum: tombstones stay up to
// the deadline, so no later renewal would be granted.
func (op *Operation) revoked() {
	h := op.Hold
	now := h.observe()
	defer h.mu.Unlock()
	if op.buried() {
		h.end(lease.Lost, now)
	}
}
