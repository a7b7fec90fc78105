package redlock

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// A renewal renews a lock (see [WithRenewal]). It has no goroutine and no timer of its own: the
// Locker's [schedule] begins each attempt, and its deciding vote sets when the next is due.
type renewal struct {
	lock    *lease
	options *acquireOptions

	// Guarded by schedule.mu.
	due   clockdrift.Instant
	place int // in the schedule, from 1; 0: it is not there

	// Guarded by attempt.Mu.
	failures int32             // in a row
	failed   *quorum.Operation // the last attempt, if it failed
	last     *quorum.Operation // the last attempt, until all nodes have answered
}

// begin starts the renewal of a lock that is held from now on. attempt.Mu is held.
func (r *renewal) begin(start clockdrift.Instant) {
	r.plan(start.Add(r.between(r.options.ttl/earliestRenewal, r.options.ttl/renewalShare-r.slot())))
}

// A lease is renewed at a random moment, before a third of the TTL has passed: two thirds are
// left for more attempts. Locks that were taken together must not be renewed together, or a
// process that holds many has to renew them as fast as it took them. So the first moment is
// drawn from a wide span, and a shorter hold is never renewed; later ones are drawn from a
// narrow span, because each renewal costs.
const (
	renewalShare    = 3
	earliestRenewal = 6
	earliestAgain   = 4
)

// between returns a random duration from least up to most.
func (r *renewal) between(least, most time.Duration) time.Duration {
	return least + r.lock.locker.board.Jitter(most-least)
}

// renewalSlots is the number of moments in a TTL at which renewals are due: those of one moment
// share batches and commands.
const renewalSlots = 1024

// slot is the time between two of these moments.
func (r *renewal) slot() time.Duration { return r.options.ttl / renewalSlots }

// plan lets the next attempt begin in the slot behind due. attempt.Mu is held.
func (r *renewal) plan(due clockdrift.Instant) {
	slot := clockdrift.Instant(r.slot())
	r.lock.locker.renewals.set(r, due+slot-due%slot)
}

// attempt asks the nodes to prolong the lease.
func (r *renewal) attempt() {
	l, a := r.lock, &r.lock.attempt
	now := l.observe()
	ttl := r.next(now)
	switch {
	case l.ended != nil || l.parent.Err() != nil || ttl < MinTTL:
		a.Mu.Unlock()
		return
	case r.last != nil && r.last.Outcome == quorum.Undecided && r.last.Unsent(): // another one would come no sooner
		r.plan(now.Add(r.pause(now)))
		a.Mu.Unlock()
		return
	}
	op := l.extension(a.Kind.Renew, renewed, ttl)
	op.Complete = report
	op.Round = r.failures + 1
	r.last = op
	a.Mu.Unlock()
	op.AskAll()
}

// next is the TTL to ask for, within the longest hold. attempt.Mu is held.
func (r *renewal) next(now clockdrift.Instant) time.Duration {
	return min(r.options.ttl, r.lock.ends.Sub(now).Truncate(time.Millisecond))
}

// decided takes the deciding vote of an attempt, and plans the next one. attempt.Mu is held.
func (r *renewal) decided(op *quorum.Operation, now clockdrift.Instant) {
	if r.lock.ended != nil {
		return
	}
	if op.Outcome == quorum.Carried {
		r.failures, r.failed = 0, nil
		r.plan(op.Start.Add(r.between(r.options.ttl/earliestAgain, r.options.ttl/renewalShare-r.slot())))
		return
	}
	r.failures++
	r.failed = op
	r.plan(now.Add(r.pause(now)))
}

// pause is the time from a failed attempt to the next: a part of the rest of the lease, which
// makes some twenty attempts of any TTL, and at least a quarter of the node time-out, in which
// nodes recover. attempt.Mu is held.
func (r *renewal) pause(now clockdrift.Instant) time.Duration {
	left := r.lock.until.Sub(now)
	least := r.lock.locker.options.timeout(r.options.ttl) / 4
	return max(r.between(left/8, left/4+1), least)
}

// hurry lets an attempt begin soon, at a random moment for each lock. attempt.Mu is held.
func (r *renewal) hurry(now clockdrift.Instant) {
	r.plan(now.Add(r.between(0, r.lock.until.Sub(now)/8+1)))
}

// Renewal is the result of one renewal, once every node has answered or timed out. A request in
// this process's own queue does not time out while the lease lasts.
type Renewal struct {
	Key     string
	Attempt int       // 1 for the first since the lease was last prolonged, 2 if one has failed since, …
	Granted int       // the nodes that hold the lock; fewer than Nodes is a warning
	Need    int       // fewer than this is a failure
	Nodes   int       // all of them
	Votes   []Vote    // each node's answer
	Until   time.Time // when the lease ends; a renewal that failed leaves it
	Err     error     // why it failed; nil if it did not
}

func (r Renewal) String() string {
	if r.Err != nil {
		return fmt.Sprintf("%v (attempt %d)", r.Err, r.Attempt)
	}
	return fmt.Sprintf("renewed %q: held at %d of %d nodes, %d are needed", r.Key, r.Granted, r.Nodes, r.Need)
}

// autopsy asks the nodes who has the key of a lock that cannot be renewed, and ends the hold if it was
// revoked: tombstones stay up to the deadline, so no later renewal would be granted.
func (l *lease) autopsy() {
	op := &quorum.Operation{Owner: l, Complete: revoked}
	l.attempt.Mu.Lock()
	op.Prepare(&l.attempt, l.attempt.Kind.Look, l.attempt.Longest)
	l.attempt.Mu.Unlock()
	op.Encode(nil)
	op.AskAll()
}

// revoked ends a hold of which so many nodes have a tombstone that the others are no quorum.
func revoked(op *quorum.Operation) {
	l := op.Owner.(*lease)
	now := l.observe()
	defer l.attempt.Mu.Unlock()
	if op.Buried() {
		l.end(WhyLost, now)
	}
}

// report tells the result of an attempt.
func report(op *quorum.Operation) {
	l := op.Owner.(*lease)
	until := l.Until()
	l.attempt.Mu.Lock()
	if l.renewal.last == op {
		l.renewal.last = nil
	}
	if l.ended == nil && op.Outcome == quorum.Failed && op.Beaten() {
		defer l.autopsy()
	}
	tell := l.renewal.options.renewals
	if tell == nil && l.told == nil {
		l.attempt.Mu.Unlock()
		return
	}
	var err error
	switch {
	case l.ended != nil:
		err = failure(op, l.ended)
	case op.Outcome != quorum.Carried:
		err = failure(op, notProlonged(op))
	}
	e := l.extended(op, err)
	l.attempt.Mu.Unlock()
	e.Renewal, e.Attempt, e.Until = true, int(op.Round), until
	if tell != nil {
		l.locker.teller.put(hookRenewal, mostReports, func() { tell(e) })
	}
	if l.told != nil {
		l.told.extends(e)
	}
}

// renewal returns what a renewal was told of.
func (e ExtendEnd) renewal() Renewal {
	return Renewal{Key: e.Key, Attempt: e.Attempt, Granted: e.Granted, Need: e.Need, Nodes: e.Nodes, Votes: e.Votes(), Until: e.Until, Err: e.Err}
}
