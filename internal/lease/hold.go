// Package lease is pure: it says what becomes of a lock, without a goroutine, clock, mutex or driver. Times and answers
// are arguments.
//
// A [Hold] is one token's life: whether its lock is held, until when and with which fence. A [Round] is one question to
// the nodes, and counts their votes. A [Trace] is what is known of the token at one node. Package quorum tells them what
// happens, and sends what they allow, in this order:
//
//	Hold.Init, Round.Begin     an acquire begins; Trace.Asks for each node that it asks
//	Hold.Leaves                for each command, before its first byte: may it leave? What it may set is in the trace then
//	Hold.Answered              for each command: what its answer, or the want of one, says of the token at its node
//	Round.Count, Reached       for each node, once: its vote, and what the votes come to
//	Hold.Decided               the verdict: the hold begins, goes on, may ask again, or is over
//	Hold.End, Check            the hold is over: by its user, its Locker or its deadline. No command that sets leaves any more
//	Hold.Remains               for each node, until it is false: a command that frees is to be sent
//
// So a command that runs at its node long after the hold has ended is no accident. Its trace is open until the command
// has its answer, or what the node had in its buffers is known to have run and to have expired. Until then the token is
// deleted there, again and again. A conversion has two tokens, each with a hold of its own: see [Hold.LeavesBeside] and
// [Leaving].
package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// Strict lets [Must] panic. Tests set it.
var Strict bool

// Must panics if Strict and not ok: a caller has done what the table of [Hold] forbids, or the like.
func Must(ok bool, what string) {
	if Strict && !ok {
		panic("lease: " + what)
	}
}

// A Phase is the state of a Hold.
type Phase uint8

// The phases.
const (
	Asking Phase = iota // a round asks for the key; nothing is held
	Undone              // the last round's votes were split, or too few nodes took its fence: ask again, or end
	Held                // until the lease ends
	Over                // for good: see Why
)

// Why says why a Hold is over.
type Why uint8

// The ends of a Hold.
const (
	Released  Why = iota + 1 // by its user
	Lost                     // its lease has ended, or an operator has taken its key
	Closed                   // by the Locker
	Abandoned                // by its user, who leaves the key to its TTL
	Converted                // its lock goes on with another token
	Refused                  // it never began: too few nodes have granted the key
	Late                     // it never began: the lease, or the fence, was too old when a quorum had granted the key
	Withdrawn                // it never began: nobody wanted the key any more when a quorum had granted it
)

// A Hold is what one token has, or is to have: whether the lock is held, until when, and with which fence. Only a Hold
// says so. What the token has left at each node is told by a [Trace].
//
//	event \ phase                   Asking         Undone         Held                  Over
//	Decided, to hold: carried       Held, or Over  Held, or Over  -                     .
//	... split, or outranked         Undone         Undone         -                     .
//	... missed, or dropped          Over           Over           -                     .
//	Decided, to extend: carried     -              -              until grows, or Over  .
//	... anything else               -              -              excess, or Over       .
//	Check                           .              .              Over at until         .
//	End                             Over           Over           Over                  .
//	GoOn                            Held           -              -                     -
//
// "-" is a bug of the caller, and panics if Strict. "." changes nothing. Which commands may leave in which phase is told
// by [Hold.Leaves].
type Hold struct {
	phase   Phase
	why     Why                // Over
	stopped bool               // no more nodes need the token, though the hold is not over: see Stop
	own     bool               // the token is the user's own: another attempt of the same request may have it
	excess  bool               // Held, Over: a command that does not move until may have set a lease beyond it
	first   clockdrift.Instant // when the first command left that may set the key; 0: none has
	until   clockdrift.Instant // Held, Over: when the lease ends, drift taken off; 0: it has never begun
	limit   clockdrift.Instant // Held, Over: no lease ends later
	most    time.Duration      // from first to limit
	longest time.Duration      // the longest lease that was asked for
	drift   float64            // by which share of a lease clocks may differ while it runs
	fence   int64              // Held, Over; 0: none
}

// Init makes h a hold that asks for leases of ttl, and lasts for most at the longest. Own: its token is the user's own.
func (h *Hold) Init(ttl, most time.Duration, drift float64, own bool) {
	*h = Hold{longest: ttl, most: most, drift: drift, own: own}
}

// Phase is the state, and Why says why it is Over.
func (h *Hold) Phase() Phase { return h.phase }

// Why says why the hold is over; 0: it is not.
func (h *Hold) Why() Why { return h.why }

// Until is when the lease ends, drift taken off; 0: it has never begun.
func (h *Hold) Until() clockdrift.Instant { return h.until }

// Limit is when the longest hold ends.
func (h *Hold) Limit() clockdrift.Instant { return h.limit }

// Fence is the number of the lock; 0: none.
func (h *Hold) Fence() int64 { return h.fence }

// Excess reports whether a node may have a lease that ends behind Until.
func (h *Hold) Excess() bool { return h.excess }

// Longest is the longest lease that was asked for.
func (h *Hold) Longest() time.Duration { return h.longest }

// Asks notes that a lease of ttl is asked for.
func (h *Hold) Asks(ttl time.Duration) { h.longest = max(h.longest, ttl) }

// Expires is how long behind a setting the token has expired at the node, whose clock may be slow.
func (h *Hold) Expires() time.Duration {
	return h.longest + clockdrift.Allowance(h.longest, h.drift)
}

// Grants is when a lease of ttl ends whose first command left at start.
func (h *Hold) Grants(start clockdrift.Instant, ttl time.Duration) clockdrift.Instant {
	return clockdrift.Deadline(start, ttl, h.drift)
}

// Stop says that nodes which have not got the token need not get it: the lock goes on with another one.
func (h *Hold) Stop() { h.stopped = true }

// Decided takes the verdict of a round that may begin the hold, or prolong it, for a lease of ttl. Now is read behind
// the deciding vote, and micros is the time of the nodes then.
func (h *Hold) Decided(r *Round, ttl time.Duration, now clockdrift.Instant, micros int64) {
	if h.phase == Over {
		return
	}
	switch {
	case r.Aim == ToExtend:
		h.extended(r, ttl, now)
	case r.Aim == Nothing:
	case r.Verdict == Carried:
		h.begin(r, ttl, now, micros)
	case r.Verdict == Split, r.Verdict == Outranked:
		h.to(Undone)
	default:
		h.End(Refused, now)
	}
	h.verify()
}

// begin begins a hold that a quorum has granted, unless that is too late. The lease counts from the first round, which
// may have set the key.
func (h *Hold) begin(r *Round, ttl time.Duration, now clockdrift.Instant, micros int64) {
	if r.Aim == ToHoldAgain {
		r.Start = h.first
	}
	if h.limit == 0 {
		h.limit = r.Start.Add(h.most)
	}
	until := min(h.Grants(r.Start, ttl), h.limit)
	if now >= until || r.stale(ttl, now, micros) {
		h.End(Late, now)
		return
	}
	h.to(Held)
	h.until, h.fence = until, r.fence()
}

// extended moves the lease's end, which no extension moves nearer. One that is decided behind it does not count:
// somebody else may have held and released the key since.
func (h *Hold) extended(r *Round, ttl time.Duration, now clockdrift.Instant) {
	Must(h.phase == Held, "what is not held is extended")
	switch h.Check(now); {
	case h.phase == Over:
	case r.Verdict == Carried:
		h.until = max(h.until, min(h.Grants(r.Start, ttl), h.limit))
	default:
		h.excess = true
	}
}

// Within makes the limit that of another hold, which h is to go on with.
func (h *Hold) Within(limit clockdrift.Instant) { h.limit = limit }

// GoOn begins h with the lease, the limit and the fence of another hold of the same lock, which ends.
func (h *Hold) GoOn(from *Hold) {
	h.to(Held)
	h.until, h.limit, h.fence = from.until, from.limit, from.fence
	h.verify()
}

// Check ends the hold if its lease has ended.
func (h *Hold) Check(now clockdrift.Instant) {
	if h.phase == Held && now >= h.until {
		h.End(Lost, now)
	}
}

// End ends the hold, once. A hold whose lease has ended is Lost, whatever else ends it at the same moment.
func (h *Hold) End(why Why, now clockdrift.Instant) {
	switch {
	case h.phase == Over:
		return
	case h.phase == Held && now >= h.until:
		why = Lost
	}
	h.to(Over)
	h.why = why
	h.verify()
}

// to changes the phase.
func (h *Hold) to(next Phase) {
	Must(next > h.phase || next == Undone && h.phase == Undone, "a phase comes back")
	h.phase = next
}

// verify checks what holds of every phase.
func (h *Hold) verify() {
	Must((h.phase == Over) == (h.why != 0), "a hold is over for a reason")
	Must(h.phase != Held || h.until != 0 && h.until <= h.limit, "a lease ends by its limit")
	Must(h.phase > Undone || h.until == 0 && h.fence == 0, "what has not begun has no lease")
}
