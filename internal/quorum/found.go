package quorum

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Found returns what the operation has shown so far.
func (op *Operation) Found() acquire.Found {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	view := op.view(make([]acquire.Seen, 0, usual))
	f := acquire.Found{
		Asked: op.Asked, Misleads: op.Hold.misleads, SelfWoken: op.setAt >= op.Need,
		Readers: view.Names(protocol.SharedValue), Nodes: make([]acquire.FoundAt, len(op.board().Nodes)),
	}
	f.Holder, _ = view.Holder(op.Need)
	f.Rival, f.MayHold = view.Rival()
	f.Marked = protocol.Marked(f.Rival)
	granted := 0
	var expiries []clockdrift.Instant
	var clocks []int64
	for i := range op.votes {
		v := &op.votes[i]
		at := &f.Nodes[v.Node.Index]
		at.Unheard = v.Sent == 0 || v.Answer == protocol.Pending
		switch v.Answer {
		case protocol.Granted:
			granted++
			at.Free, at.Said, at.First = true, true, true
			f.Crowded = f.Crowded || v.Crowded()
			continue
		case protocol.Taken:
			at.Said = true
		}
		if op.holders == nil {
			continue
		}
		h := &op.holders[i]
		at.First = h.First
		f.Outranked = f.Outranked || h.InLine && !h.First
		if h.Clock > 0 {
			clocks = append(clocks, h.Clock-int64(v.answered)/int64(time.Microsecond))
		}
		if h.expires != 0 {
			expiries = append(expiries, h.expires)
		}
	}
	slices.Sort(expiries)
	if missing := op.Need - granted; missing > 0 && missing <= len(expiries) {
		f.Frees = expiries[missing-1]
	}
	if slices.Sort(clocks); len(clocks) > 0 {
		f.Clock = clocks[len(clocks)/2]
	}
	return f
}
