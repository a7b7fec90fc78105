package redlock

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A renewal keeps a lock alive (see [WithRenewal]). It has no goroutine: a timer begins
// each attempt, and the deciding vote of that one sets the timer again.
type renewal struct {
	lock    *Lock
	options *acquireOptions

	// Guarded by claim.mu.
	timer    *time.Timer
	ends     clockdrift.Instant // the longest hold's end
	failures int                // in a row
	failed   *operation         // the last attempt, if it failed
}

// begin starts the renewal of a lock that is held from now on. claim.mu is held.
func (r *renewal) begin(start clockdrift.Instant, now clockdrift.Instant) {
	r.ends = start.Add(r.options.maxHold)
	r.timer = time.AfterFunc(start.Add(r.options.ttl/renewalShare).Sub(now), r.attempt)
}

// renewalShare is the part of the TTL after which a lease is renewed: two thirds are
// left for more attempts.
const renewalShare = 3

// attempt asks the nodes to prolong the lease.
func (r *renewal) attempt() {
	l, c := r.lock, &r.lock.claim
	now := l.observe()
	ttl, over := r.next(now), l.ended != nil || l.parent.Err() != nil
	c.mu.Unlock()
	if over || ttl < MinTTL {
		return
	}
	l.extension(renew, ttl).ask(c.locker.nodes, c.locker.quorum)
}

// next is the TTL to ask for: it does not go beyond the longest hold. claim.mu is held.
func (r *renewal) next(now clockdrift.Instant) time.Duration {
	return min(r.options.ttl, r.ends.Sub(now).Truncate(time.Millisecond))
}

// decided takes the deciding vote of an attempt, and sets the timer for the next one.
// claim.mu is held.
func (r *renewal) decided(op *operation, now clockdrift.Instant) {
	if r.lock.ended != nil {
		return
	}
	if op.outcome == carried {
		r.failures, r.failed = 0, nil
		r.timer.Reset(op.start.Add(r.options.ttl / renewalShare).Sub(now))
		return
	}
	// What is left of the lease has room for several more, whatever is left.
	pause := min(r.options.backoff(r.failures), r.lock.until.Sub(now)/4)
	r.failures++
	r.failed = op
	r.timer.Reset(max(pause, time.Millisecond))
}

// hurry lets an attempt begin now. claim.mu is held.
func (r *renewal) hurry() { r.timer.Reset(time.Duration(rand.Int64N(int64(10 * time.Millisecond)))) } //nolint:gosec // locks that wake together need not ask together

// cause is why the lock was lost in spite of it. claim.mu is held.
func (r *renewal) cause() error {
	switch {
	case r.failed != nil:
		return r.failed.fail(ErrLost)
	case r.lock.until >= r.ends.Add(-clockdrift.Allowance(r.options.ttl, r.lock.claim.locker.options.drift)-MinTTL):
		return fmt.Errorf("%w: it was held for %v, the longest time that WithMaxHold allows", ErrLost, r.options.maxHold)
	}
	return ErrLost
}

// Renewal is what came of one renewal of a lease, once every node has answered or run
// out of time.
type Renewal struct {
	Key     string
	Granted int       // so many nodes hold the lock; fewer than Nodes is a warning
	Need    int       // fewer than this is a failure
	Nodes   int       // all of them
	Votes   []Vote    // what each node said
	Until   time.Time // when the lease ends; a renewal that failed leaves it
	Err     error     // why it failed; nil if it did not
}

func (r Renewal) String() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("renewed %q: held at %d of %d nodes, %d are needed", r.Key, r.Granted, r.Nodes, r.Need)
}

// report tells the user what came of an attempt.
func report(op *operation) {
	l := op.lock
	tell := l.renewal.options.renewals
	if tell == nil {
		return
	}
	until := l.Until()
	l.claim.mu.Lock()
	r := Renewal{Key: l.claim.key, Granted: op.agreed, Need: op.need, Nodes: len(op.requests), Votes: op.votes(), Until: until}
	switch {
	case l.ended != nil:
		r.Err = op.fail(l.ended)
	case op.outcome != carried:
		r.Err = op.fail(lostIfHeld(op.blame()))
	}
	l.claim.mu.Unlock()
	tell(r)
}
