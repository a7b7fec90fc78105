package quorum

import (
	"cmp"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A holderView is what a node said of the holder that keeps an acquire out.
type holderView struct {
	taken   bool // it said who has the key
	token   string
	expires clockdrift.Instant // when the node will have forgotten it; 0: it did not say
	void    bool               // the node has no vote
}

// see notes who holds the key at a node. Hold.mu is held.
func (op *Operation) see(r *node.Request, void bool, now clockdrift.Instant) {
	token, left, ok := r.Holder()
	if !ok {
		return
	}
	if op.holders == nil {
		op.holders = make([]holderView, len(op.votes))
	}
	h := holderView{taken: true, token: token, void: void}
	if left > 0 {
		h.expires = now.Add(left)
	}
	op.holders[r.Index] = h
}

// has returns a token that has the key at so many nodes, if there is one. Hold.mu is held.
func (op *Operation) has(need int) (token string, ok bool) {
	for i, h := range op.holders {
		count := 0
		for _, other := range op.holders[i:] {
			if other.taken && other.token == h.token {
				count++
			}
		}
		if h.taken && count >= need {
			return h.token, true
		}
	}
	return "", false
}

// disputed reports whether an acquire that has failed may be settled by rank: its token is a new one, which may
// let go; enough nodes answer; and no token is known to have a quorum of them. Hold.mu is held.
func (op *Operation) disputed() bool {
	_, held := op.has(op.Need)
	return op.Verdict == lease.Missed && op.Op.Verb == protocol.Acquiring && !op.Hold.Own && !held && op.answers(protocol.Failed) <= len(op.votes)-op.Need
}

// value is what the key has at a node where the token has it.
func (h *Hold) value() string {
	if h.Kind.Joins {
		return protocol.SharedValue
	}
	return h.Token
}

// Rank counts the operation's votes, and reports whether it leads: no other token ranks before
// it, and a token of this library's making has a quorum if the others let go. Those do; a user's
// own, and those of other libraries, stay.
func (op *Operation) Rank() (mine int, leads bool) {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	return op.rank()
}

// rank is Rank. Hold.mu is held.
func (op *Operation) rank() (mine int, leads bool) {
	a := op.Hold
	mine = op.answers(protocol.Granted)
	free := mine + op.answers(protocol.Pending)
	for _, h := range op.holders {
		count := 0
		for _, other := range op.holders {
			if other.token == h.token && !other.void {
				count++
			}
		}
		if h.void || !h.taken || !a.Own && !protocol.Marked(h.token) {
			continue
		}
		if cmp.Or(cmp.Compare(count, mine), compareRank(h.token, a.value())) > 0 {
			return mine, false
		}
		free++
	}
	if a.Own {
		return mine, mine > 0
	}
	// Where votes have to be durable, asking again would write nothing, and prove nothing.
	return mine, mine > 0 && free >= op.Need && a.Board.Durability == nil
}

// compareRank compares tokens with equally many votes: those that do not let go rank first.
func compareRank(a, b string) int {
	switch ours := protocol.Marked(a); {
	case ours == protocol.Marked(b):
		return cmp.Compare(a, b)
	case ours:
		return -1
	}
	return 1
}

// Behind makes op the acquire that comes right behind one that has the lock: it is refused where
// that one was granted. Nobody else knows of it.
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
			op.holders[i] = holderView{taken: true, token: won.Hold.value()}
		}
	}
}
