package quorum

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Hold is the life of a token: one key, or several. The hold knows its end, and what the token may have
// left at which node.
type Hold struct {
	Subject
	Wait

	Keeper  Keeper // nil: the hold is of no lock
	MaxHold time.Duration
	Renewal *Renewal // nil: none
	Acquire Operation
	Release Operation
	Memory  protocol.Memory // of Acquire

	// The order of mutexes is in test/locking.
	mu      sync.Mutex // guards all below, the hold's operations, and its renewal
	life    lease.Hold // whether the lock is held, until when and with which fence
	refusal error      // why the hold never began, if it is over
	cause   error      // why the hold is over, with details
	given   bool       // the user has given the hold up
	loud    bool       // the hold had the key, or others may believe so: its releases are announced
	awaited bool       // Close waits for its clean-ups: see [Hold.weigh]
	putBack bool       // its clean-ups put the wait's ticket back where a try had taken the ticket out of the line
	nodes   []nodeState
	asked   *Operation // the last of its operations with open requests that may set the key
	Contest *Contest   // nil: the votes of the acquire were not split
	// misleads: a quorum of the nodes had the token, or may have had it, when a round of the acquire was
	// decided.
	misleads bool
	sides    *protocol.Sides // where its kind has keys beside the key, or the hold is converted
	kin

	due  atomic.Int64 // the lease's end, for whoever asks all the time
	over atomic.Bool  // the hold began, and has ended
}

// A Subject is a hold's key and token, which [Hold.Init] sets.
type Subject struct {
	Board *Board
	Kind  *protocol.Kind
	Key   string         // by the user
	Many  *protocol.Many // of a hold of several keys
	Token string
	Own   bool // the token is the user's own: set before Init
	// The nodes' name of the key, and the token, boxed once for all commands.
	key, token any
	set        protocol.Fence // of its counter, where there are fences
	lane       string         // the queue of its commands at each node: the key's, or an own one
}

// A Wait is what the tries of one wait have in common.
type Wait struct {
	Line *protocol.Line // where its tries heed the tickets in line
	// Ticket is the ticket that the wait's tries leave; Next is the ticket of the Locker's next waiter, when
	// the wait ends. Nil: there is none.
	Ticket, Next *Ticket
	// Bound is until when a call settles splits: one node time-out from its first; 0: it had none. Nil: it tries once.
	Bound *clockdrift.Instant
}

// A Keeper is told what becomes of its hold.
type Keeper interface {
	// Begins is told that the hold begins, or says why it must not. The hold's mutex is held.
	Begins(now clockdrift.Instant) error
	// Ends notes the end, and returns its cause with details. The hold's mutex is held.
	Ends(e End) (cause error)
	// Renewed is told of a renewal that all nodes have answered.
	Renewed(op *Operation)
}

// An End is the end of a hold.
type End struct {
	Why        lease.Why
	Now, Until clockdrift.Instant
	Fence      int64
	Exhausted  bool       // the hold has lasted for MaxHold
	Failed     *Operation // the last renewal of a lost hold, if it failed
	Tally      Tally      // of Failed
}

// Init makes h the hold of a token, for a lease of ttl.
func (h *Hold) Init(b *Board, kind *protocol.Kind, key, token string, ttl time.Duration) {
	h.Board, h.Kind, h.Key, h.Token = b, kind, key, token
	h.life.Init(ttl, h.MaxHold, b.Drift, h.Own)
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
	return h.life.Longest()
}

// spread counts the nodes that have the token, or may have it. h.mu is held.
func (h *Hold) spread() (count int) {
	for i := range h.nodes {
		if h.nodes[i].Has() {
			count++
		}
	}
	return count
}

// decided carries out what a deciding vote means for the hold. h.mu is held.
func (h *Hold) decided(op *Operation, now clockdrift.Instant) {
	switch op.Aim {
	case lease.Nothing:
	case lease.ToExtend:
		h.check(now)
		h.life.Decided(&op.Round, op.Lease, now, 0)
		h.prolonged(op, now)
	default:
		h.acquired(op, now)
	}
}

// acquired begins the hold, or undoes the try. Split votes are kept for now: see [Contest]. h.mu is held.
func (h *Hold) acquired(op *Operation, now clockdrift.Instant) {
	asks := op.Op == h.Acquire.Op // a raise keeps the fence of a quorum
	h.misleads = h.misleads || asks && op.Verdict != lease.Carried && h.spread() >= op.Need
	if op.disputed() {
		op.Verdict = lease.Split
		if op.Full == nil {
			op.Full = make(chan struct{})
		}
		if h.Contest == nil {
			h.Contest = &Contest{Over: make(chan struct{})}
		}
	}
	var micros int64
	if op.Fence.Number != 0 {
		micros = h.Board.Microseconds()
	}
	h.life.Decided(&op.Round, op.Lease, now, micros)
	switch h.life.Phase() {
	case lease.Undone:
		return
	case lease.Held:
		if h.begins(op, now) {
			return
		}
	default:
		h.refusal = op.reason()
	}
	if op.Verdict == lease.Carried {
		op.Verdict = lease.Missed
	}
	if !asks {
		return
	}
	h.loud = h.loud || op.alarming()
	op.due |= clears
}

// begins starts the hold after a quorum's grant, unless nobody wants it any more. h.mu is held.
func (h *Hold) begins(op *Operation, now clockdrift.Instant) bool {
	h.due.Store(int64(h.life.Until()))
	if h.spent(now) { // during the question
		h.refusal = fault.ErrReleased
	} else {
		h.refusal = h.Keeper.Begins(now)
	}
	if h.refusal != nil {
		h.life.End(lease.Withdrawn, now)
		return false
	}
	h.loud = true
	if h.Renewal != nil {
		h.Renewal.begin(op.Start)
	}
	return true
}

// prolonged notes the outcome of an extension. h.mu is held.
func (h *Hold) prolonged(op *Operation, now clockdrift.Instant) {
	switch h.life.Phase() {
	case lease.Over:
		// A release needs no clean-up: it waits behind this extension in the key's queue.
		if h.life.Why() == lease.Lost {
			op.due |= clears
		}
		if op.Verdict == lease.Carried {
			op.Verdict = lease.Missed
		}
	default:
		h.due.Store(int64(h.life.Until()))
		if op.Attempt > 0 {
			h.Renewal.decided(op, now)
		}
	}
}

// refuse ends a hold before it began, and takes back what the token has set. h.mu is held.
func (h *Hold) refuse() {
	h.mu.Lock()
	h.life.End(lease.Refused, h.Board.Clock.Now())
	h.mu.Unlock()
	h.Clear()
}

// ended is why the hold is over, or never began; nil: neither. h.mu is held.
func (h *Hold) ended() error {
	switch h.life.Why() {
	case 0:
		return nil
	case lease.Lost:
		return fault.ErrLost
	case lease.Closed:
		return fault.ErrClosed
	case lease.Late:
		return fault.ErrExpired
	case lease.Refused, lease.Withdrawn:
		return h.refusal
	}
	return fault.ErrReleased
}

// observe locks h.mu, for the caller to give back, and ends the hold if its deadline has passed at the
// returned moment.
func (h *Hold) observe() (now clockdrift.Instant) {
	now = h.Board.Clock.Fresh()
	h.mu.Lock()
	h.check(now)
	return now
}

// check ends the hold if its deadline has passed. h.mu is held.
func (h *Hold) check(now clockdrift.Instant) {
	if h.life.Phase() == lease.Held && now >= h.life.Until() {
		h.end(lease.Lost, now)
	}
}

// end ends the hold, unless it has ended before. h.mu is held.
func (h *Hold) end(why lease.Why, now clockdrift.Instant) {
	if h.life.Phase() == lease.Over {
		return
	}
	h.life.End(why, now)
	e := End{Why: h.life.Why(), Now: now, Until: h.life.Until(), Fence: h.life.Fence()}
	if e.Why == lease.Lost {
		longest := h.life.Longest()
		e.Exhausted = e.Until >= h.life.Limit().Add(-clockdrift.Allowance(longest, h.Board.Drift)-protocol.MinTTL)
		if h.Renewal != nil && h.Renewal.failed != nil {
			e.Failed, e.Tally = h.Renewal.failed, h.Renewal.failed.count()
		}
		if h.life.Excess() {
			h.abandon()
		}
	}
	if e.Why != lease.Abandoned { // an abandoned key stays, whichever token has it
		h.over.Store(true)
	}
	if h.Renewal != nil {
		h.Board.Renewals.remove(h.Renewal)
	}
	h.cause = h.Keeper.Ends(e)
}
