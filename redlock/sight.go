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
	taken   bool // it said who has the key
	token   string
	expires clockdrift.Instant // when the node will have forgotten it; 0: it did not say
	void    bool               // the node has no vote
}

// see notes who holds the key at a node. claim.mu is held.
func (op *operation) see(r *request, void bool, now clockdrift.Instant) {
	if len(r.reply) == 0 {
		return
	}
	holder := r.reply[0]
	if op.task.tells && !op.task.finds {
		holder = r.reply[len(r.reply)-1]
	}
	if holder.Kind != driver.String || holder.Str == op.claim.token {
		return
	}
	if op.sights == nil {
		op.sights = make([]sight, len(op.requests))
	}
	s := sight{taken: true, token: holder.Str, void: void}
	if op.waits && r.reply[1].Kind == driver.Integer && r.reply[1].Int > 0 && r.reply[1].Int <= MaxTTL.Milliseconds() {
		// The node counts in whole milliseconds, and goes on while the reply is on its way.
		s.expires = now.Add(time.Duration(r.reply[1].Int+1) * time.Millisecond)
	}
	op.sights[r.node.index] = s
}

// holder returns the token that has the key at need nodes, or "" if none has it for
// certain: then the votes may be split among several.
func (op *operation) holder() string {
	op.claim.mu.Lock()
	defer op.claim.mu.Unlock()
	token, _ := op.has(op.need)
	return token
}

// has returns a token that has the key at so many nodes, if there is one. claim.mu is held.
func (op *operation) has(need int) (token string, ok bool) {
	for i, s := range op.sights {
		count := 0
		for _, other := range op.sights[i:] {
			if other.taken && other.token == s.token {
				count++
			}
		}
		if s.taken && count >= need {
			return s.token, true
		}
	}
	return "", false
}

// rival returns the token that has the key at the most nodes, and whether these are a quorum.
func (op *operation) rival() (token string, quorum bool) {
	op.claim.mu.Lock()
	defer op.claim.mu.Unlock()
	for count := len(op.sights); count > 0; count-- {
		if token, ok := op.has(count); ok {
			return token, count >= op.need
		}
	}
	return "", false
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
