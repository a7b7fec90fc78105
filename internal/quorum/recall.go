package quorum

import (
	"slices"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A request that may set a key waits at a distant or slow node while the others decide, behind another
// request of its key, or until there is room. Once nobody needs it, it is recalled, and the release behind
// it has nothing to do there. Otherwise a key would make no more cycles a second than its farthest node
// answers requests one by one, or its queue there would grow without end.

// needless reports whether op's unsent requests are not needed any more: they must not set the key. Hold.mu
// is held.
func (op *Operation) needless() bool {
	return op.Does == lease.Sets && !op.Hold.life.MaySet(&op.Round, op.heard())
}

// heard reports whether somebody waits for op's late answers. Hold.mu is held.
func (op *Operation) heard() bool { return !op.dismissed && (op.Full != nil || op.whole != nil) }

// supersedes reports whether op asks for all that an earlier operation of its hold does: another round of an
// acquire, or an extension of an extension whose lease ends no later.
func (op *Operation) supersedes(earlier *Operation) bool {
	same := op.Op == earlier.Op || op.Op.Prolongs && earlier.Op.Prolongs && earlier.Beside == nil
	return same && op.Asked.Add(op.Lease) >= earlier.Asked.Add(earlier.Lease)
}

// Dismiss says that nobody waits for late answers.
func (op *Operation) Dismiss() {
	op.Hold.mu.Lock()
	op.dismissed = true
	op.unlock()
	op.Hold.Recall()
}

// Recall takes the hold's needless unsent requests out of the nodes' queues: first requests that may set the
// key, and then releases with nothing left to do.
func (h *Hold) Recall() {
	for _, sets := range []bool{true, false} {
		var needless []*node.Request
		h.mu.Lock()
		for op := h.asked; op != nil; op = op.before {
			for i := range op.votes {
				r := &op.votes[i].Request
				if (op.Op.Does == lease.Sets) == sets && op.votes[i].Answer == protocol.Pending && op.spares(r) {
					needless = append(needless, r)
				}
			}
		}
		h.mu.Unlock()
		for _, r := range needless {
			r.Node.Recall(r)
		}
	}
	h.recall()
}

// spares reports whether the unsent r is not needed. A release stays in line where another token of the lock
// may be: a command before it may make that token into this one. Hold.mu is held.
func (op *Operation) spares(r *node.Request) bool {
	return op.needless() || op.Op.Does == lease.Frees && op.Hold.nodes[r.Node.Index].Clean() && !slices.Contains(op.behind, r.Node)
}

// list puts op on its hold's list. Hold.mu is held.
func (op *Operation) list(nodes []*node.Node) {
	h := op.Hold
	if op.Op.Does == lease.Sets {
		for _, n := range nodes {
			h.nodes[n.Index].Asks()
		}
		for earlier := h.asked; earlier != nil; earlier = earlier.before {
			if op.supersedes(earlier) {
				earlier.Supersede()
			}
		}
	}
	op.before, h.asked = h.asked, op
}

// unlist takes op, which all nodes have answered, off the list of setting operations. Hold.mu is held.
func (op *Operation) unlist() {
	at := &op.Hold.asked
	for *at != nil && *at != op {
		at = &(*at).before
	}
	if *at == op {
		*at = op.before
	}
	op.before = nil
}

// put puts a request in its node's queue, and reports whether the request waits behind another of its keys.
// A release where the token is not, and cannot appear, is answered at once: it would only wait in the key's
// queue. At a down node the answer is that the node is down.
func (op *Operation) put(r *node.Request) (behind bool) {
	if op.Op.Does == lease.Frees {
		op.Hold.mu.Lock()
		spared := op.spares(r)
		op.Hold.mu.Unlock()
		if spared {
			op.Unanswered(r, r.Node.DownFor(), op.Asked)
			op.Passed(r)
			return false
		}
	}
	return r.Node.Submit(r)
}
