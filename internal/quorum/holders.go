package quorum

import (
	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A holderView is a node's answer about the holder that keeps an acquire out.
type holderView struct {
	protocol.Refusal
	expires clockdrift.Instant // when the node will have forgotten the token; 0: not told
	void    bool               // the node has no vote
}

// see notes who holds the key at a node. Hold.mu is held.
func (op *Operation) see(r *node.Request, void bool, now clockdrift.Instant) {
	if op.holders == nil {
		op.holders = make([]holderView, len(op.votes))
	}
	h := holderView{Refusal: r.Refusal(), void: void}
	if h.Left > 0 {
		h.expires = now.Add(h.Left)
	}
	op.holders[r.Index] = h
}

// value is the key's value at a node with the token. Questions about no token have no kind.
func (h *Hold) value() string {
	if h.Kind != nil && h.Kind.Joins {
		return protocol.SharedValue
	}
	return h.Token
}

// usual is for how many nodes a view needs no memory of its own.
const usual = 8

// view is the nodes' answers so far, in room if large enough. It has no distances: see locate. Hold.mu is
// held.
func (op *Operation) view(room []acquire.Seen) acquire.View {
	value := op.Hold.value()
	v := acquire.View{
		Nodes: room, Need: op.Need, Token: value, Marked: protocol.Marked(value), Own: op.Hold.Own,
		Durable: op.board().Durability != nil,
	}
	for i := range op.votes {
		seen := acquire.Seen{Answer: op.votes[i].Answer}
		if op.holders != nil {
			h := &op.holders[i]
			seen.Named, seen.Holder, seen.Marked, seen.Void = h.Named, h.Holder, protocol.Marked(h.Holder), h.void
		}
		v.Nodes = append(v.Nodes, seen)
	}
	return v
}

// locate adds the nodes' distances, for [acquire.View.Late] and Hurry. It takes the nodes' mutexes.
func (op *Operation) locate(v *acquire.View) {
	v.Near = op.board().Trip()
	for i := range v.Nodes {
		v.Nodes[i].Trip = op.votes[i].Node.Trip()
	}
}

// View is the nodes' answers so far.
func (op *Operation) View() acquire.View {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	return op.view(nil)
}

// Behind makes op the acquire right behind one that got the lock: refused where the lock's was granted.
// Nobody else knows op.
func (op *Operation) Behind(won *Operation) {
	won.Hold.mu.Lock()
	defer won.Hold.mu.Unlock()
	op.Need, op.Asked, op.Verdict = won.Need, won.Asked, lease.Missed
	op.votes = make([]vote, len(won.votes))
	op.holders = make([]holderView, len(won.votes))
	for i := range won.votes {
		v := &won.votes[i]
		own := &op.votes[i]
		own.Init(&op.Ask, &op.Terms, v.Node, i)
		own.Answer, own.answered, own.err = v.Answer, v.answered, v.err
		if v.Answer == protocol.Granted {
			own.Answer = protocol.Taken
			op.holders[i].Refusal = protocol.Refusal{Named: true, Holder: won.Hold.value()}
		}
	}
}
