package quorum

import (
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Ticket is a waiter's ticket as the nodes may have it: a node may have the ticket if a try that leaves it
// was sent there. No other node is asked to take it away.
type Ticket struct {
	Board *Board
	Kind  *protocol.Kind // of the wanted key
	Key   string
	Line  protocol.Line
	At    []atomic.Int32 // by node: our knowledge of the ticket there
	leave atomic.Pointer[Operation]
}

// Name is the nodes' name of the ticket.
func (t *Ticket) Name() string { return t.Line.String() }

// Leave takes the ticket out of the lines of all nodes that may have it. All nodes put next in its place;
// nil: none does.
func (t *Ticket) Leave(next *Ticket) {
	var instead *protocol.Ticket
	if next != nil {
		instead = &next.Line.Ticket
	} else if !t.Maybe() {
		return
	}
	h := new(Hold)
	op := &h.Acquire
	h.Init(t.Board, t.Kind, t.Key, "", t.Board.TTL)
	h.Line, h.Ticket, h.Next = &t.Line, t, next
	op.Prepare(h, protocol.Leave, t.Board.TTL)
	op.Cmds = op.LeaveLine(instead)
	op.AskAll()
	t.leave.Store(op)
}

// The states of a node that may have a ticket.
const (
	ticketNowhere int32 = iota
	ticketSent          // a try that may leave the ticket is under way, or was lost
	ticketThere
)

// sent notes that a try is about to leave for a node, where it leaves the ticket.
func (t *Ticket) sent(node int) { t.At[node].CompareAndSwap(ticketNowhere, ticketSent) }

// answered notes whether a node has the ticket behind a try.
func (t *Ticket) answered(node int, there bool) {
	if there {
		t.At[node].Store(ticketThere)
	} else {
		t.At[node].Store(ticketNowhere)
	}
}

// Maybe reports whether a node may have the ticket.
func (t *Ticket) Maybe() bool { return t.reaches(ticketSent) }

// There reports whether a node is known to have the ticket.
func (t *Ticket) There() bool { return t.reaches(ticketThere) }

func (t *Ticket) reaches(state int32) bool {
	for i := range t.At {
		if t.At[i].Load() >= state {
			return true
		}
	}
	return false
}

// goes reports whether the end of a wait has something to do at a node, to which it is about to be sent: to
// take the ticket away, or to put the next one.
func (h *Hold) goes(node int) bool {
	was := h.Ticket.At[node].Swap(ticketNowhere)
	if h.Next != nil {
		h.Next.sent(node)
	}
	return was != ticketNowhere || h.Next != nil
}

// recall takes the end of a's wait out of the queues of nodes where the ticket is not, and cannot
// appear.
func (h *Hold) recall() {
	if h.Ticket == nil {
		return
	}
	op := h.Ticket.leave.Load()
	if op == nil || op.Hold.Next != nil {
		return
	}
	var needless []*node.Request
	h.mu.Lock()
	for i := range op.votes {
		if r := &op.votes[i].Request; !h.nodes[r.Node.Index].Asked() && h.Ticket.At[r.Node.Index].Load() == ticketNowhere {
			needless = append(needless, r)
		}
	}
	h.mu.Unlock()
	for _, r := range needless {
		r.Node.Recall(r)
	}
}
