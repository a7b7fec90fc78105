package supervise

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/redlock"
)

// A Lease is what a program runs under, such as a [*redlock.Lock] with renewal. Until is its
// deadline by the wall clock: see [redlock.Lock.Until].
type Lease interface{ Until() time.Time }

// leastMargin is what a busy machine may need to kill a few hundred processes.
const leastMargin = 50 * time.Millisecond

// Margin is how long before the deadline SIGKILL is sent to what then still runs: 1 % of the TTL,
// and at least 50ms.
func Margin(ttl time.Duration) time.Duration { return max(leastMargin, ttl/100) }

// Fits reports whether a TTL leaves room for the grace: half of it has to remain for two attempts
// of a renewal before the first signal. Otherwise the error is a [redlock.OptionError] for "Grace".
func Fits(ttl, grace time.Duration) error {
	most := ttl/2 - Margin(ttl)
	if grace < 0 || grace > most {
		return &redlock.OptionError{Option: "Grace", Reason: fmt.Sprintf(
			"%v is not between 0 and %v: grace and margin (%v) may take half of the TTL %v, and two attempts to renew need the rest", grace, max(most, 0), Margin(ttl), ttl)}
	}
	return nil
}

// now is the time of the clock that this process and its guard share.
func now() time.Duration {
	if boot, ok := clockdrift.SinceBoot(); ok {
		return boot
	}
	return time.Duration(time.Now().UnixNano())
}

// deadline reads a lease by the shared clock. It is never late: the clock is read first. And of the
// wall clock, in which a lease has its deadline, the later of two readings counts, so that no
// single step of it lengthens the lease.
func deadline(l Lease) time.Duration {
	at, before := now(), time.Now().Round(0)
	until := l.Until()
	wall := time.Now().Round(0)
	if before.After(wall) {
		wall = before
	}
	return at + until.Sub(wall)
}

// wall is a moment of the shared clock by the wall clock.
func wall(at time.Duration) time.Time { return time.Now().Add(at - now()).Round(0) }
