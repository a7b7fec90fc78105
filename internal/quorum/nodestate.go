package quorum

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A nodeState is what is known of a hold's token at one node.
//
// An unknown outcome is not ended by an answer "not there": a server that was stopped runs what
// lies in its buffers when it wakes up, and not in the order of the connections, so that an
// acquire that timed out may run after its own release.
type nodeState struct {
	asked   int32              // requests that may set the key and have no final answer
	set     int32              // commands that have set the key, or may have
	open    int32              // those of them that have no answer
	lost    int32              // those of the open ones that will get none
	there   bool               // a node said that the token has the key
	listed  bool               // it is on the node's list of clean-ups
	tries   uint8              // releases that have not ended that
	since   clockdrift.Instant // when the last command left, was answered or was lost
	replied clockdrift.Instant // when the node first answered after the last loss; 0: not yet
}

// clean reports whether the token is not at the node and cannot appear there.
func (s *nodeState) clean() bool { return s.asked == 0 && !s.has() }

// has reports whether the token is at the node, or may be.
func (s *nodeState) has() bool { return s.there || s.open > 0 }

// gone reports whether the node said that the token is not there, after all commands that may set
// it had left. A lost one may still set it.
func (s *nodeState) gone() bool { return s.asked == 0 && !s.there && (s.open == 0 || s.replied != 0) }

// onLeave notes that a command that may set the key is about to leave.
func (s *nodeState) onLeave(now clockdrift.Instant) {
	s.set++
	s.open++
	s.since = now
}

// onKnown notes what came of a command that may have set the key.
func (s *nodeState) onKnown(set bool, now clockdrift.Instant) {
	s.open = max(s.lost, s.open-1)
	if set {
		s.there, s.since = true, now
	} else {
		s.set--
	}
}

// onLost notes that a command that may have set the key gets no answer.
func (s *nodeState) onLost(now clockdrift.Instant) {
	s.lost = min(s.lost+1, s.open)
	s.since, s.replied = now, 0
}

// onReply notes that the node has answered a command that left at start.
func (s *nodeState) onReply(start, now clockdrift.Instant) {
	if s.replied == 0 && start >= s.since {
		s.replied = now
	}
}

// onRelease notes the answer to a release that left at start; 0: it was no command of its own. A
// grant that was read since then may be younger: replies of two connections come in any order.
func (s *nodeState) onRelease(deleted bool, start clockdrift.Instant) {
	switch only := deleted && s.set == 1; {
	case only:
		s.open, s.lost, s.there = 0, 0, false // what was deleted is what the only command set: it has run
	case start == 0 || start >= s.since:
		s.there = false
	}
}

// outlive forgets what must have expired by now: what the node has said to have set, one TTL
// later; and lost commands one TTL after the node has answered again, for what lay in its buffers
// it has run by then. Later failures of the node do not change that.
func (s *nodeState) outlive(now clockdrift.Instant, ttl time.Duration) {
	if now >= s.since.Add(ttl) {
		s.there = false
	}
	if s.lost > 0 && s.replied != 0 && now >= s.replied.Add(ttl) {
		s.open, s.lost = s.open-s.lost, 0
	}
}

// outlast forgets the commands that a server took with it when it ended: what it had not run by
// then nobody will. A release that was sent to its successor has said what there is.
func (s *nodeState) outlast(reborn, released clockdrift.Instant) {
	if s.since < reborn && reborn <= released {
		s.open, s.lost = 0, 0
	}
}

// forget leaves what is at the node to the TTL.
func (s *nodeState) forget() { s.open, s.lost, s.there = 0, 0, false }
