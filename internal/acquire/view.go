// Package acquire is pure: it decides what an acquire does after a round without success, without a
// goroutine, clock, mutex or driver. A [View] is the nodes' answers so far; a [Contest] says what a
// contender does by them, and a [Waiting] when a waiter tries again.
//
// A key is contended for where several tokens were asked for at the same moment, and none has a quorum. SET
// NX GET tells each contender which node has which token. The token with the most votes leads; among equals,
// the greatest token. The leader keeps its votes and asks all nodes again; the others let go. Silent nodes
// are not waited for where the answers come from a quorum.
//
// The rank is advice: views may differ, and then two contenders lead, or none does. Safety does not depend
// on it. Each round counts all votes anew, and the lease counts from the first byte of the first round: see
// package lease.
package acquire

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/lease"
)

// Seen is the answer of a node to a round.
type Seen struct {
	Answer lease.Answer
	Holder string        // the token at the key there, if Named
	Named  bool          // the node has refused, and has named the holder
	Marked bool          // Holder is of this library's making: it lets go where it does not lead
	Void   bool          // the node has no vote
	Trip   time.Duration // how far away the node is, for Late and Hurry
}

// A View is the nodes' answers to a round, at one moment.
type View struct {
	Nodes   []Seen
	Need    int           // votes that make a quorum
	Token   string        // the key's value where the round's token has the key
	Marked  bool          // Token is of this library's making
	Own     bool          // the round's token is the user's own, which is never let go
	Durable bool          // votes have to be durable: asking again writes nothing, and proves nothing
	Near    time.Duration // how far away a quorum is, for Late and Hurry
}

// Count counts the nodes with this answer.
func (v *View) Count(what lease.Answer) (count int) {
	for i := range v.Nodes {
		if v.Nodes[i].Answer == what {
			count++
		}
	}
	return count
}

// Names reports whether a node has named the token as the holder.
func (v *View) Names(token string) bool {
	return slices.ContainsFunc(v.Nodes, func(s Seen) bool { return s.Named && s.Holder == token })
}

// Holder returns a token that holds the key at need nodes, if there is one.
func (v *View) Holder(need int) (token string, ok bool) {
	for i := range v.Nodes {
		if s := &v.Nodes[i]; s.Named && v.at(s.Holder, true) >= need {
			return s.Holder, true
		}
	}
	return "", false
}

// at counts the nodes that name the token; void: nodes whose grant is no vote, too.
func (v *View) at(token string, void bool) (count int) {
	for i := range v.Nodes {
		if s := &v.Nodes[i]; s.Named && s.Holder == token && (void || !s.Void) {
			count++
		}
	}
	return count
}

// Rival returns the token that holds the key at the most nodes, and whether a quorum may, together with the
// silent nodes.
func (v *View) Rival() (token string, mayHold bool) {
	most := 0
	for i := range v.Nodes {
		if s := &v.Nodes[i]; s.Named {
			if count := v.at(s.Holder, true); count > most {
				token, most = s.Holder, count
			}
		}
	}
	return token, most > 0 && most+v.Count(lease.Failed)+v.Count(lease.Pending) >= v.Need
}

// Disputed reports whether a round without a quorum may be settled by rank: its token may let go; enough
// nodes answer; and no token is known to have a quorum of them.
func (v *View) Disputed() bool {
	_, held := v.Holder(v.Need)
	return !v.Own && !held && v.Count(lease.Failed) <= len(v.Nodes)-v.Need
}

// Contested reports whether a quorum has answered, and another token has some of its votes: then silent
// nodes decide whether the round gets a quorum.
func (v *View) Contested() bool {
	named := slices.ContainsFunc(v.Nodes, func(s Seen) bool { return s.Named })
	return named && len(v.Nodes)-v.Count(lease.Pending)-v.Count(lease.Failed) >= v.Need
}

// Rank counts the round's votes, and reports whether it leads: no other token ranks before it, and a token
// of this library's making has a quorum if the others let go. These do; users' own tokens and other
// libraries' stay.
func (v *View) Rank() (mine int, leads bool) {
	mine = v.Count(lease.Granted)
	free := mine + v.Count(lease.Pending)
	for i := range v.Nodes {
		s := &v.Nodes[i]
		if s.Void || !s.Named || !s.Marked {
			continue
		}
		if cmp.Or(cmp.Compare(v.at(s.Holder, false), mine), v.compare(s)) > 0 {
			return mine, false
		}
		free++
	}
	return mine, mine > 0 && free >= v.Need && !v.Durable
}

// compare compares the holder at a node with the round's token, for equally many votes: a token that does
// not let go ranks first.
func (v *View) compare(s *Seen) int {
	switch {
	case s.Marked == v.Marked:
		return cmp.Compare(s.Holder, v.Token)
	case s.Marked:
		return -1
	}
	return 1
}
