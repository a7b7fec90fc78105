package acquire

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/lease"
)

// aMoment is the least time that nodes get which are not known to be far away. On a busy machine replies that are here
// already are read so late.
const aMoment = 5 * time.Millisecond

// Moment is how long nodes at this distance may take whose answers are no more than welcome.
func Moment(trip time.Duration) time.Duration { return max(4*trip, 2*time.Millisecond) }

// Late is for how long answers are waited for that have not come, where the next step depends on who has the key, and how
// far away the farthest of those nodes is; 0: they are known to be farther away than those that have answered.
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

// Hurry is for how long the nodes that have not answered are waited for in a round that is contested. A split is settled at
// the distance of those that have: otherwise one node that is far away would hold up every key that is contended for.
//
// But the token seen, which has been in the way for as long as the others need to answer, is no contender's. Then the
// nodes that it does not have are waited for, and for as long as it has stayed: they may be slow. "": there is none.
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

// Next says after a round, which was decided at the moment, whether the contender asks again, and how long it rests before
// that. It starts no round that would end behind the bound.
func (c *Contest) Next(v *View, trip time.Duration, decided, bound clockdrift.Instant) (rest time.Duration, again bool) {
	mine, leads := v.Rank()
	if c.stalls++; mine > c.most {
		c.most, c.stalls = mine, 0
	}
	rest = trip / 4 << c.stalls
	return rest, leads && c.stalls < maxStalls && decided.Add(rest+trip) <= bound
}
