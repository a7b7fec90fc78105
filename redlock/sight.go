package redlock

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A sight is what a node said of the holder that keeps an acquire out.
type sight struct {
	token   string             // "": nothing was said
	expires clockdrift.Instant // when the node will have forgotten it; 0: it did not say
}

// see notes who holds the key at a node. claim.mu is held.
func (op *operation) see(r *request, now clockdrift.Instant) {
	if len(r.reply) == 0 || r.reply[0].Kind != driver.String {
		return
	}
	if op.sights == nil {
		op.sights = make([]sight, len(op.requests))
	}
	s := sight{token: r.reply[0].Str}
	if op.full != nil && r.reply[1].Kind == driver.Integer && r.reply[1].Int > 0 && r.reply[1].Int <= MaxTTL.Milliseconds() {
		// The node counts in whole milliseconds, and goes on while the reply is on its way.
		s.expires = now.Add(time.Duration(r.reply[1].Int+1) * time.Millisecond)
	}
	op.sights[r.node.index] = s
}

// holder returns the token that has the key at need nodes, or "" if none has it for
// certain: then the votes may be split among several that will all give up.
func (op *operation) holder() string {
	op.claim.mu.Lock()
	defer op.claim.mu.Unlock()
	for i, s := range op.sights {
		count := 0
		for _, other := range op.sights[i:] {
			if other.token == s.token {
				count++
			}
		}
		if s.token != "" && count >= op.need {
			return s.token
		}
	}
	return ""
}

// everywhere reports whether so many nodes have set the key that the announcements of its
// clean-up make a quorum. It was no lock all the same where they have no vote, or take no
// fence.
func (op *operation) everywhere() bool {
	op.claim.mu.Lock()
	defer op.claim.mu.Unlock()
	return op.placed >= op.need
}

// frees returns when so many nodes will have forgotten who has the key that those
// which are free make a quorum, or 0 if they do not say.
func (op *operation) frees() clockdrift.Instant {
	op.claim.mu.Lock()
	defer op.claim.mu.Unlock()
	free := 0
	var times []clockdrift.Instant
	for i := range op.requests {
		switch {
		case op.requests[i].answer == Granted:
			free++
		case op.sights != nil && op.sights[i].expires != 0:
			times = append(times, op.sights[i].expires)
		}
	}
	slices.Sort(times)
	if missing := op.need - free; missing > 0 && missing <= len(times) {
		return times[missing-1]
	}
	return 0
}

// marked reports whether a token is of this library's making, so that its release will be
// announced.
func marked(token string) bool { return strings.HasPrefix(token, tokenMark) }
