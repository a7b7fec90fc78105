package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// A contest is a key whose votes are split: several attempts asked for it at the same moment,
// and none has a quorum. SET NX GET tells each contender which node has which token. The
// one with the most votes leads; among equals, the one with the greatest token. The leader
// keeps its votes and asks all nodes again; the others release theirs.
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
		l.awaitMore(ctx, op)
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
	op := &quorum.Operation{Ask: l.acquire.Ask, Lease: l.acquire.Lease, Attempt: a, Owner: l, Decided: begin}
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

// insist repeats a try while the votes are split, until it has the key, somebody holds it, or one
// node time-out has passed. Silent nodes may hide whether a token has a quorum: it has one if the
// next try finds it again, because a contender would have released it.
func (l *Locker) insist(ctx context.Context, key string, o *acquireOptions) (*lease, error) {
	var bound clockdrift.Instant
	var before string
	for i := 0; ; i++ {
		lock, err := l.try(ctx, key, o, false, &bound)
		if err == nil || lock == nil || !taken(err) || ctx.Err() != nil || l.closed() {
			return lock, err
		}
		holder, certain := lock.last().Rival()
		if certain || errors.Is(err, ErrTaken) && holder == before {
			return lock, err
		}
		before = holder
		// After about this time the leader has the key, or has released its votes as well.
		if bound == 0 { // another caller's try
			bound = l.clock.Now().Add(l.options.timeout(o.ttl))
		}
		trip := l.roundTrip(lock.last())
		pause := 2*trip + l.board.Jitter(2*trip<<min(i, 8))
		if l.clock.Now().Add(pause) > bound {
			return lock, err
		}
		if !l.rest(ctx, pause) {
			return lock, l.cut(ctx, err)
		}
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
