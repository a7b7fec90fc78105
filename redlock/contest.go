package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A contest is a key whose votes are split: several attempts asked for it at the same moment,
// and none has a quorum. SET NX GET tells each contender which node has which token. The
// one with the most votes leads; among equals, the one with the greatest token. The leader
// keeps its votes and asks all nodes again; the others release theirs. Nodes that have not answered
// are not waited for: see [quorum.Operation.Early].
//
// Ranking is advice: views may differ, and then two contenders lead, or none does. Safety
// does not depend on it. Every round collects all votes anew, and the lease counts from the
// first byte of the first round (see [begin]). A leader without progress releases its votes,
// and contenders without votes try again after a random pause.

// maxStalls is how many rounds in a row a leader may gain no vote before it releases its own.
const maxStalls = 3

// settle asks the nodes again for an attempt with split votes, while it leads. It starts no round
// after the bound: one node time-out from the first split, if none was set before.
func (l *Locker) settle(ctx context.Context, lock *lease, bound *clockdrift.Instant) error {
	op := &lock.acquire
	defer l.board.Keys.Stay(op)()
	defer close(lock.attempt.Contest.Over)
	most, stalls := 0, 0
	for {
		decided := l.clock.Now()
		if *bound == 0 {
			*bound = decided.Add(op.Patience())
		}
		if op.Early {
			op.Dismiss()
		} else {
			l.awaitMore(ctx, op)
		}
		trip := l.roundTrip(op)
		mine, leads := op.Standing()
		if stalls++; mine > most {
			most, stalls = mine, 0
		}
		pause := trip / 4 << stalls
		if !leads || stalls == maxStalls || decided.Add(pause+trip) > *bound || !l.rest(ctx, pause) {
			lock.attempt.Clear()
			return l.cut(ctx, failed(op))
		}
		op = lock.askAgain()
		if op == nil {
			return &fault.StateError{Op: "acquire", Key: lock.attempt.Key, Why: ErrClosed}
		}
		err := l.result(ctx, op)
		switch op.Outcome {
		case quorum.Outbid:
			return l.raise(ctx, lock)
		case quorum.Split:
		default:
			return err
		}
	}
}

// askAgain asks all nodes once more, with the same token. It returns nil if the Locker takes no
// acquires any more.
func (l *lease) askAgain() *quorum.Operation {
	a := &l.attempt
	op := &quorum.Operation{Ask: l.acquire.Ask, Lease: l.acquire.Lease, Attempt: a, Owner: l, Decided: begin, Seen: l.acquire.Seen, Since: l.acquire.Since}
	op.ProposeAgain() // all votes of a lock are for one number
	if op.Waits {
		op.Full = make(chan struct{})
	}
	a.Mu.Lock()
	a.Contest.Again = op
	a.Mu.Unlock()
	if !op.AskAll() {
		a.Clear()
		return nil
	}
	return op
}

// last is the last round of the acquire. attempt.Mu is held, or the acquire is over.
func (l *lease) last() *quorum.Operation {
	if c := l.attempt.Contest; c != nil && c.Again != nil {
		return c.Again
	}
	return &l.acquire
}

// insist repeats a try while the votes are split, until it has the key, a quorum says that somebody
// else has it, or one node time-out has passed. Silent nodes may hide whether a token has a quorum:
// it is taken for one if it is there all that time, because a contender would have released it.
func (l *Locker) insist(ctx context.Context, key string, o *acquireOptions) (*lease, error) {
	var bound, ends clockdrift.Instant
	var seen waiting.Sighting
	timeout := l.options.timeout(o.ttl)
	for i := 0; ; i++ {
		lock, err := l.try(ctx, key, o, false, &bound)
		if !errors.Is(err, ErrContended) || lock == nil || ctx.Err() != nil || l.closed() {
			return lock, err
		}
		now := l.clock.Now()
		if ends == 0 {
			ends = now.Add(timeout)
		}
		late := now >= ends
		switch {
		case seen.Stays(lock.last(), lock.last().Asked, now, timeout):
			return lock, heldBy(lock)
		case late && !seen.Stood(now, timeout):
			return lock, err
		case late: // one more look, which waits for no silent node
			o = o.behind(new(waiting.Sighting))
		default:
			o = o.behind(&seen)
		}
		// After about this time the leader has the key, or has released its votes as well.
		trip := l.roundTrip(lock.last())
		pause := 2*trip + l.board.Jitter(2*trip<<min(i, 8))
		if !late {
			pause = min(pause, ends.Sub(now))
		}
		if !l.rest(ctx, pause) {
			return lock, l.cut(ctx, err)
		}
	}
}

// behind returns the options of a try after tries that have seen that.
func (o *acquireOptions) behind(seen *waiting.Sighting) *acquireOptions {
	if o.seen == *seen {
		return o
	}
	own := *o
	own.seen = *seen
	return &own
}

// heldBy is the failure of a try to which a token has stayed in the way.
func heldBy(lock *lease) error {
	lock.attempt.Mu.Lock()
	defer lock.attempt.Mu.Unlock()
	return failure(lock.last(), ErrTaken)
}

// Nobody may delete a token of the user's own: a retry may have it, anywhere. So its votes stay, and a
// split of such votes ends when those have ended that do not lead. Each try of the one that leads
// prolongs its votes; the others sound the nodes, and ask for a lease only if a quorum would grant it. While
// somebody else has a vote they let him go first, for he may be the one that leads: who asks at the
// moment at which the others' votes end may split these as well. Where nobody has, they reserve the
// key for a few round trips, and ask for a lease only with a quorum of that: or two who were told of
// the same release would split the votes.

// lose ends a try with a token of the user's own that somebody else has the votes for. Still lets it be
// still.
func (l *Locker) lose(ctx context.Context, lock *lease, still func()) error {
	op := &lock.acquire
	l.awaitMore(ctx, op) // the late answers tell a holder from a contender
	err := failed(op)
	if _, leads := op.Standing(); !leads && errors.Is(err, ErrContended) {
		still()
	}
	return l.cut(ctx, err)
}

// approach asks for no lease until it may have it: it returns the attempt that may ask for one now.
func (l *Locker) approach(ctx context.Context, lock *lease, another func() (*lease, error)) (*lease, error) {
	if err := l.sound(ctx, lock); err != nil {
		return lock, err
	}
	trip := l.roundTrip(&lock.acquire)
	lock, err := another()
	if err != nil {
		return nil, err
	}
	if err := l.reserve(ctx, lock, trip); err != nil {
		return lock, err
	}
	return another()
}

// sound asks whether a quorum would grant an acquire with a token of the user's own. It writes nothing.
func (l *Locker) sound(ctx context.Context, lock *lease) error {
	op := &lock.acquire
	op.Prepare(&lock.attempt, lock.attempt.Kind.Sound(), op.Lease)
	op.Decided, op.Full = nil, make(chan struct{})
	op.Encode(&lock.memory)
	if !op.AskAll() {
		return &fault.StateError{Op: "acquire", Key: lock.attempt.Key, Why: ErrClosed}
	}
	if err := l.result(ctx, op); err != nil {
		op.Dismiss()
		return err
	}
	l.awaitMore(ctx, op)
	switch vacant, alone := op.Vacant(); {
	case vacant && alone:
		return nil
	case vacant:
		lock.attempt.Yield()
		return l.cut(ctx, failed(op))
	}
	return l.lose(ctx, lock, lock.attempt.StayStill)
}

// reserve takes the key where it is free, for some round trips, and prolongs nothing.
func (l *Locker) reserve(ctx context.Context, lock *lease, trip time.Duration) error {
	op := &lock.acquire
	op.Decided, op.TTL, op.Full = nil, protocol.Milliseconds(8*trip+time.Millisecond), make(chan struct{})
	op.Encode(&lock.memory)
	op.Propose()
	if !op.AskAll() {
		return &fault.StateError{Op: "acquire", Key: lock.attempt.Key, Why: ErrClosed}
	}
	switch err := l.result(ctx, op); {
	case op.Outcome == quorum.Carried, op.Outcome == quorum.Outbid:
		return nil
	case taken(err):
		return l.lose(ctx, lock, lock.attempt.StayStill)
	default:
		op.Dismiss()
		return err
	}
}

// roundTrip is how long a round of op takes: until a quorum of the nodes has answered, and at
// least the nodes' distance.
func (l *Locker) roundTrip(op *quorum.Operation) time.Duration {
	return max(l.board.Trip(), minTrip, min(op.RoundTrip(), op.Patience()/16))
}

// minTrip is the least round trip that pauses are computed from: goroutines need time to run.
const minTrip = 100 * time.Microsecond

// rest waits for the pause, and reports false if the context or the Locker ends first.
func (l *Locker) rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-l.closing:
	}
	return false
}
