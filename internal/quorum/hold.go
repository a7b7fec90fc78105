package quorum

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Hold is what one token has, or is to have: one key, or several. It knows when it ends, and what
// the token may have left at which node.
type Hold struct {
	Board *Board
	Kind  *protocol.Kind
	Key   string         // as the user named it
	Many  *protocol.Many // its keys, if it is for several
	Token string
	Own   bool           // the token is the user's own
	Line  *protocol.Line // where its tries heed the tickets in line
	// Ticket is that of the wait whose tries leave it; Next, of its end, that of the Locker's next waiter. Nil: there is none.
	Ticket, Next *Ticket
	// The key as the nodes know it and the token, boxed once for all commands.
	key, token any
	set        protocol.Fence // of its counter, where there are fences
	lane       string         // the queue of its commands at each node: the key's, or its own beside others

	Keeper  Keeper          // whose it is; nil: it is about no lock
	Parent  context.Context //nolint:containedctx // its renewals end with it
	MaxHold time.Duration
	Renewal *Renewal // nil: none
	Acquire Operation
	Release Operation
	Memory  protocol.Memory // of Acquire
	from    *Hold           // the reader's that it is to go on with; nil: none

	// The order of mutexes is in test/locking.
	mu      sync.Mutex // guards all below, the hold's operations, and its renewal
	loud    bool       // it has had the key, or others may believe so: its releases are announced
	longest time.Duration
	Contest *Contest // nil: the votes of the acquire were not split
	awaited bool     // Close waits for its clean-ups: see [Hold.weigh]
	nodes   []nodeState
	sides   *protocol.Sides    // where its kind has keys beside the key, or it is converted
	others  []*Hold            // what it had, or was to have, before or after a conversion: see [Hold.convert]
	within  *Hold              // whose other token it has: see [Hold.convert]
	asked   *Operation         // the last of its operations that may set the key and have open requests
	until   clockdrift.Instant // the lease's end, drift taken off
	ends    clockdrift.Instant // the longest hold's end, which no lease passes
	number  int64              // its fence
	ended   error              // why it is over: ErrLost, ErrReleased or ErrClosed; or why it never began
	cause   error              // the same with details
	given   bool               // its user has given it up
	excess  bool               // an extension that does not count may have set a lease beyond until
	raises  bool               // an upgrade is under way
	// misleads: a quorum of the nodes had the token when a round of the acquire was decided, or may
	// have had it.
	misleads bool
	// unwanted: it is over and was not abandoned, or a quorum has granted the token that its lock
	// goes on with.
	unwanted bool

	due  atomic.Int64 // until, for whoever asks all the time
	over atomic.Bool  // it had begun, and has ended
}

// A Keeper is whose a hold is. It is told what becomes of it.
type Keeper interface {
	// Begins notes that the hold begins, or says why it must not. The hold's mutex is held.
	Begins(now clockdrift.Instant) error
	// Ends notes the end, and returns its cause with details. The hold's mutex is held.
	Ends(e End) (cause error)
	// Renewed is told of a renewal that all nodes have answered.
	Renewed(op *Operation)
}

// An End is that of a hold.
type End struct {
	Why        Why
	Now, Until clockdrift.Instant
	Fence      int64
	Exhausted  bool       // it was held for the longest time that it may be
	Failed     *Operation // the last renewal, if that has failed: of a hold that is lost
	Tally      Tally      // of that
}

// Why says why a hold has ended.
type Why uint8

// The ends of a hold.
const (
	Released Why = iota + 1
	Lost
	Closed
	Abandoned
	Converted
)

// Init makes h the hold of a token, for a lease of ttl.
func (h *Hold) Init(b *Board, kind *protocol.Kind, key, token string, ttl time.Duration) {
	h.Board, h.Kind, h.Key, h.Token, h.longest = b, kind, key, token, ttl
	h.key, h.token = b.KeyName(kind, key), token
	h.nodes = make([]nodeState, len(b.Nodes))
	if kind != nil && kind.Many != nil {
		h.Many, h.key = kind.Many, kind.Many.First()
	}
	h.lane = h.key.(string)
	if kind != nil && kind.Joins {
		h.sides = protocol.NewSides(h.lane)
		h.lane += "\x00" + token
	}
	if b.Fences {
		h.set.Set = protocol.FenceSet(h.key.(string))
	}
}

// Names are the keys' names.
func (h *Hold) Names() []string {
	if h.Many == nil {
		return []string{h.Key}
	}
	return h.Many.Names
}

// Has reports whether the key is one of the hold's.
func (h *Hold) Has(key string) bool {
	return h.Many == nil && h.Key == key || h.Many != nil && slices.Contains(h.Many.Names, key)
}

// Longest is the longest lease that the hold has asked for.
func (h *Hold) Longest() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.longest
}

// decided says what a deciding vote does to the hold. h.mu is held.
func (h *Hold) decided(op *Operation, now clockdrift.Instant) {
	switch op.Op.Verb {
	case protocol.Acquiring, protocol.Inheriting, protocol.Upgrading:
		h.acquired(op, now)
	case protocol.Raising, protocol.Retaking:
		h.raised(op, now)
	case protocol.Extending, protocol.Downgrading:
		h.prolong(op, now)
	}
}

// spread is how many nodes have the token, or may have it. h.mu is held.
func (h *Hold) spread() (count int) {
	for i := range h.nodes {
		if !h.nodes[i].Clean() {
			count++
		}
	}
	return count
}

// acquired begins the hold, or undoes the try. Split votes are kept for now: see [Contest]. The
// lease counts from the first round, which may have set the key. h.mu is held.
func (h *Hold) acquired(op *Operation, now clockdrift.Instant) {
	h.misleads = h.misleads || op.Outcome != Carried && h.spread() >= op.need
	if op.Outcome == Carried && op != &h.Acquire {
		op.Start = h.Acquire.first()
	}
	switch {
	case op.disputed():
		op.Outcome = Split
		if op.Full == nil {
			op.Full = make(chan struct{})
		}
		if h.Contest == nil {
			h.Contest = &Contest{Over: make(chan struct{})}
		}
		return
	case op.Outcome == Outbid, op.Outcome == Carried && h.begin(op, now):
		return
	case h.ended == nil:
		h.ended = op.reason()
	}
	h.loud = h.loud || op.alarming()
	if h.Own && op.Full == nil {
		op.Full = make(chan struct{})
	}
	op.due |= clears
}

// raised begins the hold with a fence that was raised. The lease counts from the acquire's first
// round, which may have set the key. h.mu is held.
func (h *Hold) raised(op *Operation, now clockdrift.Instant) {
	if op.Outcome != Carried {
		return
	}
	op.Start = h.Acquire.first()
	if op.Op.Levels && h.Acquire.outlived(now) {
		h.ended, op.Outcome = fault.ErrExpired, Failed
		return
	}
	h.begin(op, now)
}

// begin begins the hold that a quorum has granted. After the deadline the operation fails instead.
// h.mu is held.
func (h *Hold) begin(op *Operation, now clockdrift.Instant) bool {
	h.until, h.ends = op.deadline(), op.Start.Add(h.MaxHold)
	if h.from != nil {
		h.ends = h.from.ends
		h.until = min(h.until, h.ends)
	}
	h.due.Store(int64(h.until))
	switch {
	case now >= h.until, op.outlived(now):
		h.ended = fault.ErrExpired
	case h.spent(now): // while it was asked for
		h.ended = fault.ErrReleased
	default:
		h.number = op.number()
		h.ended = h.Keeper.Begins(now)
	}
	if h.ended != nil {
		op.Outcome = Failed
		return false
	}
	h.loud = true
	if h.Renewal != nil {
		h.Renewal.begin(op.Start)
	}
	return true
}

// prolong moves the deadline, unless that has passed: one of the two comes first. h.mu is held.
func (h *Hold) prolong(op *Operation, now clockdrift.Instant) {
	h.check(now)
	switch {
	case h.ended != nil:
		// Somebody else may have held and released the key since the deadline. A release needs no
		// clean-up: it waits behind this extension in the key's queues.
		if h.ended == fault.ErrLost { //nolint:errorlint // ended holds the sentinel itself
			op.due |= clears
		}
		if op.Outcome == Carried {
			op.Outcome = Failed
		}
		return
	case op.Outcome == Carried:
		h.until = max(h.until, min(op.deadline(), h.ends))
		h.due.Store(int64(h.until))
	default:
		h.excess = true
	}
	if op.Round > 0 {
		h.Renewal.decided(op, now)
	}
}

// observe locks h.mu, which the caller gives back, and ends the hold if its deadline has passed at
// the returned moment.
func (h *Hold) observe() (now clockdrift.Instant) {
	now = h.Board.Clock.Fresh()
	h.mu.Lock()
	h.check(now)
	return now
}

// check ends the hold if its deadline has passed. h.mu is held.
func (h *Hold) check(now clockdrift.Instant) {
	if h.ended == nil && now >= h.until {
		h.end(Lost, now)
	}
}

// end ends the hold, unless it has ended before. h.mu is held.
func (h *Hold) end(why Why, now clockdrift.Instant) {
	if h.ended != nil {
		return
	}
	e := End{Why: why, Now: now, Until: h.until, Fence: h.number}
	switch why {
	case Lost:
		h.ended = fault.ErrLost
		allowance := clockdrift.Allowance(h.longest, h.Board.Drift)
		e.Exhausted = h.until >= h.ends.Add(-allowance-protocol.MinTTL)
		if h.Renewal != nil && h.Renewal.failed != nil {
			e.Failed, e.Tally = h.Renewal.failed, h.Renewal.failed.count()
		}
	case Closed:
		h.ended = fault.ErrClosed
	default:
		h.ended = fault.ErrReleased
	}
	if why != Abandoned { // its key stays, whichever token has it
		h.over.Store(true)
		h.unwanted = why != Converted // or nodes that do not have the token yet need not get it
	}
	if h.excess && why == Lost {
		h.abandon()
	}
	if h.Renewal != nil {
		h.Board.Renewals.remove(h.Renewal)
	}
	h.cause = h.Keeper.Ends(e)
}
