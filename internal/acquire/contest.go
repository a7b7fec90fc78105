package acquire

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/lease"
)

// aMoment is the least time for nodes that are not known to be far away. On a busy machine arrived replies
// are read so late.
const aMoment = 5 * time.Millisecond

// Moment is how long nodes at this distance may take whose answers are no more than welcome.
func Moment(trip time.Duration) time.Duration { return max(4*trip, 2*time.Millisecond) }

// Late is how long to wait for late answers, where the next step depends on the holder, and the distance of
// the farthest of those nodes; 0: they are known to be farther away than the nodes that have answered.
func (v *View) Late() (wait, far time.Duration) {
	near := v.Near
	for i := range v.Nodes {
		if s := &v.Nodes[i]; s.Answer == lease.Granted || s.Answer == lease.Taken {
			near = max(near, s.Trip)
		}
	}
	for i := range v.Nodes {
		s := &v.Nodes[i]
		if s.Answer != lease.Pending {
			continue
		}
		if far = max(far, s.Trip); s.Trip <= 2*near+aMoment {
			wait = max(Moment(near), aMoment)
		}
	}
	return wait, far
}

// Hurry is how long a contested round waits for late answers. A split is settled at the distance of the
// nodes that have answered: otherwise one distant node would hold up every contended key.
//
// But the token seen, which has been in the way for as long as the others need to answer, is no contender's.
// Then nodes without that token are waited for, as long as the token has stayed: they may be slow. "": no
// token has been in the way.
func (v *View) Hurry(seen string, stayed time.Duration) time.Duration {
	wait, far := v.Late()
	if far = max(far, aMoment); seen != "" && stayed >= far && v.Names(seen) {
		return max(Moment(far), stayed)
	}
	return wait
}

// maxStalls is how many rounds in a row a leader may gain no vote before it lets go.
const maxStalls = 3

// A Contest is an acquire whose votes are split, round after round. The zero Contest has had none.
type Contest struct{ most, stalls int }

// Next says, after a round decided at the moment, whether the contender asks again, and after which rest. No
// round starts that would end behind the bound.
func (c *Contest) Next(v *View, trip time.Duration, decided, bound clockdrift.Instant) (rest time.Duration, again bool) {
	mine, leads := v.Rank()
	if c.stalls++; mine > c.most {
		c.most, c.stalls = mine, 0
	}
	rest = trip / 4 << c.stalls
	return rest, leads && c.stalls < maxStalls && decided.Add(rest+trip) <= bound
}

// A Dispute is a call that waits for no holder, and whose tries find split votes one after the other. It
// goes on until one node time-out after the first try. Silent nodes may hide whether a token has a quorum: a
// token that stays all that time is taken for a holder's, because a contender would have released it.
type Dispute struct {
	Seen   Sighting // for the next try
	all    Sighting
	ends   clockdrift.Instant
	tries  int
	looked bool // the last try was told of no token, and has waited for no silent node
}

// Next says whether a token is a holder's, or else whether the call tries again, and after which pause: by
// then the leader has the key, or has released its votes as well.
func (d *Dispute) Next(found *Found, timeout, trip time.Duration, jitter func(bound time.Duration) time.Duration, now clockdrift.Instant) (held, again bool, pause time.Duration) {
	if d.ends == 0 {
		d.ends = now.Add(timeout)
	}
	late := now >= d.ends
	switch pause = 2 * trip; {
	case d.all.Stays(found, now, timeout):
		return true, false, 0
	case late && (d.looked || !d.all.Stayed(now, timeout)):
		return false, false, 0
	case late:
		d.Seen, d.looked = Sighting{}, true
	default:
		d.Seen, pause = d.all, min(pause+jitter(pause<<min(d.tries, 8)), d.ends.Sub(now))
	}
	d.tries++
	return false, true, pause
}
