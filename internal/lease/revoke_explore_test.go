package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A revocation is of client 0's lock. Its commands run at any time, so it may stop anywhere: see package inspect, Revoke.
type revocation struct {
	ends  clockdrift.Instant // the lease, at the latest; 0: not known
	keeps int                // so many tombstones are not known to last so long
	final bool               // all of them do
}

const tombstone = rival + 1 // the owner of a key that client 0 had

// A part is what a revocation has done at one node.
type part uint8

const (
	untouched part = iota
	put            // its tombstone was there when the end of the lease was found
	lasts          // it is there until then
)

// revoking is what an operator may do.
func (s *searcher) revoking(w *situation) {
	var graves []clockdrift.Instant
	for n := range s.nodes {
		switch node := &w.servers[n]; node.owner {
		case 1:
			s.step(w, func(w *situation) bool { w.servers[n].owner = tombstone; return true }, "a tombstone is put at node %d", n)
		case tombstone:
			graves = append(graves, s.forgets(node))
		}
		if w.servers[n].part == put {
			s.step(w, func(w *situation) bool { s.keeps(w, n); return true }, "the tombstone at node %d is made to last", n)
		}
	}
	quorum := s.nodes/2 + 1
	if w.revoked.ends == 0 && w.users[0].hold.phase == Held && len(graves) >= Tombstones(s.nodes, quorum) {
		s.step(w, func(w *situation) bool {
			w.revoked = revocation{ends: RevokedUntil(graves, s.nodes, quorum), keeps: len(graves)}
			for n := range s.nodes {
				if node := &w.servers[n]; node.owner == tombstone {
					node.part = put
				}
			}
			return true
		}, "the operator has seen %d tombstones", len(graves))
	}
}

// forgets is when the node lets go of its key.
func (s *searcher) forgets(node *server) clockdrift.Instant {
	return present.Add(tick * time.Duration(node.life-node.age))
}

// keeps lets the tombstone at a node last until the lease has ended.
func (s *searcher) keeps(w *situation, n int) {
	node := &w.servers[n]
	for s.forgets(node) < w.revoked.ends {
		node.age--
	}
	node.part = lasts
	w.revoked.keeps--
	w.revoked.final = w.revoked.keeps == 0
}
