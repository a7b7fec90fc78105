package waiting

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// yield is how long this process leaves the key to others after a row of hand-overs: until one of them has heard of
// it and asked for it, which takes two round trips, what a busy machine adds, and a random part. A busy machine adds
// several round trips to near nodes, and at most mostBusy to far ones.
func yield(h Host) time.Duration {
	trip := h.Trip()
	return max(3*trip+min(13*trip, mostBusy), 2*time.Millisecond) + h.Jitter(max(min(8*trip, trip+mostBusy), time.Millisecond))
}

const mostBusy = 50 * time.Millisecond

// splitBackoff is the pause after so many tries in a row that nobody may have won: the time in
// which the one that leads has the key, or has let go; and full jitter over a bound that begins
// with as much and doubles.
func splitBackoff(h Host, splits int) time.Duration {
	return 2*h.Trip() + h.Jitter(min(max(2*h.Trip(), time.Millisecond)<<min(splits, 16), MaxSplitBackoff))
}

// MaxSplitBackoff bounds the pauses between tries for which the votes were split.
const MaxSplitBackoff = 250 * time.Millisecond

// relyUntil returns until when a waiter relies on the announcement of a release, which may get
// lost, or be forbidden to the holder alone: 4 to 6 s from now. All who look within the same tenth
// of a second do so at its end, so that their tries share batches.
func relyUntil(h Host, now clockdrift.Instant) clockdrift.Instant {
	until := now.Add(leastReliance + h.Jitter(leastReliance/2-lookTogether))
	return until - until%clockdrift.Instant(lookTogether) + clockdrift.Instant(lookTogether)
}

const (
	leastReliance = 4 * time.Second
	lookTogether  = 100 * time.Millisecond
)

// ticketPeriod is how often the first of a process leaves its ticket anew, at least.
const ticketPeriod = protocol.TicketTTL / 3

// MaxTries is how many waiters try at once: more would fill no larger batches.
const MaxTries = 256

// backoff is the pause after the given poll: full jitter over a bound that doubles.
func (o *Options) backoff(h Host, poll int) time.Duration {
	bound := o.BackoffMax
	if poll < 32 && o.BackoffMin<<poll > 0 {
		bound = min(bound, o.BackoffMin<<poll)
	}
	return h.Jitter(bound) + 1
}

// A Sighting is the token that is most in the way of a call's tries.
type Sighting struct {
	Token string             // "": none
	Since clockdrift.Instant // the first of them

	hidden clockdrift.Instant // since when it might have a quorum
	misled clockdrift.Instant // until when it may be of one who was misled
}

// Stays notes what a try has seen, and reports whether a token has been there
// for so long, and might have had a quorum all the time: a contender would have released it, but
// not one of a user's own. A try that waits for silent nodes says nothing of that time. Nor does one
// that misleads, for twice as long: who has given up because of it, and does not reach a node, has
// left a token there. If both took the other's for a holder's, nobody would have the key.
func (s *Sighting) Stays(try *quorum.Found, now clockdrift.Instant, long time.Duration) bool {
	switch token := try.Rival; {
	case try.Holder != "": // what is left of it at the next try is being released
		*s = Sighting{}
		return false
	case token != s.Token:
		*s = Sighting{token, now, now, s.misled}
	case !try.MayHold:
		s.hidden = now // by now it had no quorum: what a node hides at a later try says nothing of before
	}
	if try.Misleads {
		s.misled = now.Add(2 * long)
	}
	return try.Asked >= s.misled && s.Stayed(try.Asked, long)
}

// Stayed reports whether a try that is asked then may see that the token stays.
func (s *Sighting) Stayed(asked clockdrift.Instant, long time.Duration) bool {
	return protocol.Marked(s.Token) && asked >= s.hidden.Add(long)
}
