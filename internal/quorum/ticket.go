package quorum

import (
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Ticket is that of a wait, or of several by one name: which nodes may have it, because a try that leaves it there was
// sent to them. It is taken out of the lines of no others.
type Ticket struct {
	at    []atomic.Int32 // by node
	leave atomic.Pointer[Operation]
}

// NewTicket returns one that no node has.
func (b *Board) NewTicket() *Ticket { return &Ticket{at: make([]atomic.Int32, len(b.Nodes))} }

// Leave takes the ticket of a wait for keys of the kind out of the lines of all nodes that may have it. All nodes leave
// next as nextIs in its place; nil: none does.
func (t *Ticket) Leave(b *Board, kind *protocol.Kind, key string, line *protocol.Line, next *Ticket, nextIs *protocol.Ticket) {
	h := new(Hold)
	op := &h.Acquire
	h.Init(b, kind, key, "", b.TTL)
	h.Line, h.Ticket, h.Next = line, t, next
	op.Prepare(h, protocol.Leave, b.TTL)
	op.Cmds = op.LeaveLine(nextIs)
	op.AskAll()
	t.leave.Store(op)
}

// The states of a node.
const (
	ticketNowhere int32 = iota
	ticketSent          // a try that may leave it is under way, or was lost
	ticketThere
)

// sent notes that a try is about to leave for a node, which leaves the ticket there.
func (t *Ticket) sent(node int) { t.at[node].CompareAndSwap(ticketNowhere, ticketSent) }

// answered notes whether the try has left it there.
func (t *Ticket) answered(node int, left bool) {
	if left {
		t.at[node].Store(ticketThere)
	} else {
		t.at[node].CompareAndSwap(ticketSent, ticketNowhere)
	}
}

// Somewhere reports whether a node may have it.
func (t *Ticket) Somewhere() bool {
	for i := range t.at {
		if t.at[i].Load() != ticketNowhere {
			return true
		}
	}
	return false
}

// There reports whether a node is known to have it.
func (t *Ticket) There() bool {
	for i := range t.at {
		if t.at[i].Load() == ticketThere {
			return true
		}
	}
	return false
}

// goes reports whether the end of a wait has something to do at a node, which is about to be sent there: to take its
// ticket away, or to leave the next one.
func (h *Hold) goes(node int) bool {
	was := h.Ticket.at[node].Swap(ticketNowhere)
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
		if r := &op.votes[i].Request; !h.nodes[r.Node.Index].Asked() && h.Ticket.at[r.Node.Index].Load() == ticketNowhere {
			needless = append(needless, r)
		}
	}
	h.mu.Unlock()
	for _, r := range needless {
		r.Node.Recall(r)
	}
}
