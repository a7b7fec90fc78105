package redlock

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// trip is the distance of the nodes: the round trip within which a quorum has answered,
// at its best; at first it is a guess.
func (l *Locker) trip() time.Duration {
	trips := make([]time.Duration, 0, len(l.nodes))
	for _, n := range l.nodes {
		n.mu.Lock()
		if trip := n.lines[0].window.trip(); trip > 0 {
			trips = append(trips, trip)
		}
		n.mu.Unlock()
	}
	if len(trips) < l.quorum {
		return time.Millisecond
	}
	slices.Sort(trips)
	return trips[l.quorum-1]
}

// courtesy is how long this process leaves the key to others after it had its turns: as
// long as one of them needs to hear of it and to ask for it, which is two round trips
// of a machine that is busy, and a random part.
func (l *Locker) courtesy() time.Duration {
	return max(16*l.trip(), 2*time.Millisecond) + rand.N(max(8*l.trip(), time.Millisecond)) //nolint:gosec // nobody gains by guessing it
}

// others reports whether another Locker listened at any node when a release was last
// announced there.
func (l *Locker) others() bool {
	for _, n := range l.nodes {
		n.mu.Lock()
		listeners := n.listeners
		n.mu.Unlock()
		if listeners > n.ear.own() {
			return true
		}
	}
	return false
}

// scatter is the pause after so many tries in a row that nobody may have won: full jitter
// over a bound that begins with the time of one try and doubles.
func (l *Locker) scatter(splits int) time.Duration {
	bound := min(max(2*l.trip(), time.Millisecond)<<min(splits, 16), maxScatter)
	return rand.N(bound) //nolint:gosec // nobody gains by guessing it
}

// trust returns until when a waiter relies on the announcement of a release, which may get lost,
// or be forbidden to the holder alone: 4 to 6 s from now. All who look within the same tenth of
// a second do so at its end, so that their tries share batches.
func trust(now clockdrift.Instant) clockdrift.Instant {
	until := now.Add(leastTrust + rand.N(leastTrust/2-lookTogether)) //nolint:gosec // nobody gains by guessing it
	return until - until%clockdrift.Instant(lookTogether) + clockdrift.Instant(lookTogether)
}

const (
	leastTrust   = 4 * time.Second
	lookTogether = 100 * time.Millisecond
)

// maxTries is how many waiters try at once: more would fill no larger batches.
const maxTries = 256

// maxScatter bounds the pauses between tries for which the votes were split.
const maxScatter = 250 * time.Millisecond
