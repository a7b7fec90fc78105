package quorum

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
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

// Holder returns the token that has the key at a quorum, or "" if none has it for certain: then
// the votes may be split among several.
func (op *Operation) Holder() string {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	token, _ := op.has(op.need)
	return token
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

// Rival returns the token that has the key at the most nodes, and whether these may be a quorum
// with those that have not said.
func (op *Operation) Rival() (token string, may bool) {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	silent := op.answers(protocol.Failed) + op.answers(protocol.Pending)
	for count := len(op.holders); count > 0; count-- {
		if token, ok := op.has(count); ok {
			return token, count+silent >= op.need
		}
	}
	return "", false
}

// Misleads reports whether a quorum of the nodes had the token when a round of its acquire was decided,
// or may have had it: others may have been told that it is a holder's.
func (op *Operation) Misleads() bool {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	return op.Hold.misleads
}

// SelfWoken reports whether so many nodes have set the key that the announcements of its clean-up
// make a quorum. It was no lock all the same where they have no vote, or take no fence.
func (op *Operation) SelfWoken() bool {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	return op.setAt >= op.need
}

// Frees returns when so many nodes will have forgotten who has the key that those which are free
// make a quorum, or 0 if they do not say.
func (op *Operation) Frees() clockdrift.Instant {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	free := 0
	var times []clockdrift.Instant
	for i := range op.votes {
		switch {
		case op.votes[i].answer == protocol.Granted:
			free++
		case op.holders != nil && op.holders[i].expires != 0:
			times = append(times, op.holders[i].expires)
		}
	}
	slices.Sort(times)
	if missing := op.need - free; missing > 0 && missing <= len(times) {
		return times[missing-1]
	}
	return 0
}

// Free calls do for each node that a failed try has found free.
func (op *Operation) Free(do func(node int)) {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	for i := range op.votes {
		if v := &op.votes[i]; v.answer == protocol.Granted {
			do(v.Node.Index)
		}
	}
}

// Unheard calls do for each node that has not answered, or was not asked: the others had decided before.
func (op *Operation) Unheard(do func(node int)) {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	for i := range op.votes {
		if v := &op.votes[i]; v.start == 0 || v.answer == protocol.Pending {
			do(v.Node.Index)
		}
	}
}

// InFront calls do for each node that has answered a try with a ticket, with whether none is before
// it there.
func (op *Operation) InFront(do func(node int, first bool)) {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	for i := range op.votes {
		switch v := &op.votes[i]; v.answer {
		case protocol.Granted:
			do(v.Node.Index, true)
		case protocol.Taken:
			first, _ := v.First()
			do(v.Node.Index, first)
		}
	}
}

// Outranked reports whether a node that has refused says that other tickets are in line.
func (op *Operation) Outranked() bool {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	for i := range op.votes {
		if v := &op.votes[i]; v.answer == protocol.Taken {
			if first, ok := v.First(); ok && !first {
				return true
			}
		}
	}
	return false
}

// Crowded reports whether a node has said that other tickets are in line behind.
func (op *Operation) Crowded() bool {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	for i := range op.votes {
		if op.votes[i].answer == protocol.Granted && op.votes[i].Crowded() {
			return true
		}
	}
	return false
}

// disputed reports whether an acquire that has failed may be settled by rank: its token is a new one, which may
// let go; enough nodes answer; and no token is known to have a quorum of them. Hold.mu is held.
func (op *Operation) disputed() bool {
	_, held := op.has(op.need)
	return op.Outcome == Failed && op.Op.Verb == protocol.Acquiring && !op.Hold.Own && !held && op.answers(protocol.Failed) <= len(op.votes)-op.need
}

// value is what the key has at a node where the token has it.
func (h *Hold) value() string {
	if h.Kind.Joins {
		return protocol.SharedValue
	}
	return h.Token
}

// Sees reports whether a node has said that the token has the key.
func (op *Operation) Sees(token string) bool {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	return op.names(token)
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
	return mine, mine > 0 && free >= op.need && a.Board.Durability == nil
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
	op.need, op.Asked, op.Outcome = won.need, won.Asked, Failed
	op.votes = make([]vote, len(won.votes))
	op.holders = make([]holderView, len(won.votes))
	for i := range won.votes {
		v := &won.votes[i]
		own := &op.votes[i]
		own.Init(&op.Ask, &op.Terms, v.Node, i)
		own.answer, own.answered, own.err = v.answer, v.answered, v.err
		if v.answer == protocol.Granted {
			own.answer = protocol.Taken
			op.holders[i] = holderView{taken: true, token: won.Hold.value()}
		}
	}
}

// ClockOffset is how far the clocks of the nodes that have refused and told their time are ahead of
// ours, in microseconds: the median; 0: none has told. It is short by the time that replies take.
func (op *Operation) ClockOffset() int64 {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	var offsets []int64
	for i := range op.votes {
		if v := &op.votes[i]; v.answer == protocol.Taken {
			if micros, ok := v.Clock(); ok {
				offsets = append(offsets, micros-int64(v.answered)/int64(time.Microsecond))
			}
		}
	}
	if len(offsets) == 0 {
		return 0
	}
	slices.Sort(offsets)
	return offsets[len(offsets)/2]
}
