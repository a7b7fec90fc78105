package acquire

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// Found is what a round of an acquire has shown so far, all at one moment.
type Found struct {
	Asked     clockdrift.Instant
	Holder    string             // the token that holds the key at a quorum; "": none is known to, and the votes may be split
	Rival     string             // the token that holds the key at the most nodes: Holder, if known
	Marked    bool               // Rival is of this library's making
	MayHold   bool               // Rival may have a quorum together with the silent nodes
	Misleads  bool               // a quorum had the acquire's own token, or may have: others may take it for a holder
	SelfWoken bool               // the announcements of our own clean-up make a quorum
	Outranked bool               // a refusing node has other tickets in line
	Crowded   bool               // a granting node has other tickets in line
	Readers   bool               // a node says that readers have the key
	Frees     clockdrift.Instant // when a quorum will be free: the holder's keys expire; 0: the nodes do not say
	Clock     int64              // for how long the clocks of refusing nodes are ahead of ours, in microseconds: the median, short by the time of a reply
	Nodes     []FoundAt          // by the node's index
}

// FoundAt is what a round has shown of a node.
type FoundAt struct {
	Free    bool // the key was free
	Unheard bool // the node has not answered, or was not asked: the others had decided before
	Said    bool // the node has said whether
	First   bool // nobody is before the round's ticket in its line
}

// A Sighting is the token that is most in the way of a call's tries.
type Sighting struct {
	Token string             // "": none
	Since clockdrift.Instant // the first of them

	marked bool
	hidden clockdrift.Instant // since when the token might have a quorum
	misled clockdrift.Instant // until when the token may be a misled contender's
}

// Stays notes what a try has seen, and reports whether a token has been there for this time, and might have
// had a quorum all along: a contender would have released its token, unless it is a user's own.
//
// A try that waits for silent nodes tells nothing of that time. A try that misleads tells nothing for twice
// as long: a contender that gave up because of it, and does not reach a node, has left a token there. If
// both took the other's token for a holder's, nobody would have the key.
func (s *Sighting) Stays(try *Found, now clockdrift.Instant, long time.Duration) bool {
	switch token := try.Rival; {
	case try.Holder != "": // its remains at the next try are being released
		*s = Sighting{}
		return false
	case token != s.Token:
		*s = Sighting{token, now, try.Marked, now, s.misled}
	case !try.MayHold:
		s.hidden = now // it had no quorum by now: later silent nodes tell nothing of before
	}
	if try.Misleads {
		s.misled = now.Add(2 * long)
	}
	return try.Asked >= s.misled && s.Stayed(try.Asked, long)
}

// Stayed reports whether a try at this moment may find that the token stays.
func (s *Sighting) Stayed(asked clockdrift.Instant, long time.Duration) bool {
	return s.marked && asked >= s.hidden.Add(long)
}
