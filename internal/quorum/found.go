package quorum

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Found is what a round of an acquire has shown so far, all of it at one moment.
type Found struct {
	Asked     clockdrift.Instant
	Holder    string             // the token that has the key at a quorum; "": none is known to, and the votes may be split
	Rival     string             // the token that has the key at the most nodes
	MayHold   bool               // Rival may have a quorum together with the nodes that have not said
	Misleads  bool               // a quorum had the acquire's own token, or may have: others may have been told that it holds
	SelfWoken bool               // so many nodes have set the key that the announcements of its clean-up make a quorum
	Outranked bool               // a node that has refused has other tickets in line
	Crowded   bool               // a node that has granted has other tickets in line
	Readers   bool               // a node says that readers have the key
	Frees     clockdrift.Instant // when a quorum will be free: the holder's keys expire; 0: the nodes do not say
	Clock     int64              // for how long the clocks of nodes that refuse are ahead of ours, in microseconds: the median, short by the time of a reply
	Nodes     []FoundAt          // by the node's index
}

// FoundAt is what a round has shown of one node.
type FoundAt struct {
	Free    bool // the key was free
	Unheard bool // the node has not answered, or was not asked: the others had decided before
	Said    bool // the node has said whether
	First   bool // nobody is before the round's ticket in its line
}

// Found returns what the operation has shown so far.
func (op *Operation) Found() Found {
	op.Hold.mu.Lock()
	defer op.Hold.mu.Unlock()
	view := op.view(make([]acquire.Seen, 0, usual))
	f := Found{
		Asked: op.Asked, Misleads: op.Hold.misleads, SelfWoken: op.setAt >= op.Need,
		Readers: view.Names(protocol.SharedValue), Nodes: make([]FoundAt, len(op.board().Nodes)),
	}
	f.Holder, _ = view.Holder(op.Need)
	f.Rival, f.MayHold = view.Rival()
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
			first, said := v.First()
			at.Said, at.First = true, first
			f.Outranked = f.Outranked || said && !first
			if micros, ok := v.Clock(); ok {
				clocks = append(clocks, micros-int64(v.answered)/int64(time.Microsecond))
			}
		}
		if op.holders != nil && op.holders[i].expires != 0 {
			expiries = append(expiries, op.holders[i].expires)
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
