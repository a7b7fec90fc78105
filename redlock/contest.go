package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A contest is a key that several ask for at the same moment, so that each gets some of the
// votes and nobody a quorum. It is settled at once. SET NX GET has told each contender who
// has which node. The one with the most votes leads; among equals, the one with the greatest
// token. The leader keeps its votes and asks all nodes again, while the others let go.
//
// Ranking is advice: views may differ, and then two contenders lead, or none does. Safety
// does not depend on it. Every round collects all votes anew, and the lease counts from the
// first byte of the first round (see [begin]). What remains is left to chance: a leader that
// makes no progress lets go, and who has let go tries again after a random pause.

type contest struct {
	over  chan struct{} // closed when it is settled, or the attempt has let go
	again *operation    // the last round, if there was a second; guarded by claim.mu
}

// maxStalls is how many rounds in a row may bring a leader nothing before it lets go.
const maxStalls = 3

// settle asks the nodes again for an attempt whose votes were split, for as long as it leads.
// It starts no round after the bound, which it sets where there is none: one node time-out
// from the first split.
func (l *Locker) settle(ctx context.Context, lock *Lock, bound *clockdrift.Instant) error {
	op := &lock.acquire
	defer l.lanes.leave(l.lanes.stay(op, len(l.nodes)))
	defer close(lock.contest.over)
	most, stalls := 0, 0
	for {
		decided := l.clock.Now()
		if *bound == 0 {
			*bound = decided.Add(op.patience())
		}
		l.hearOut(ctx, op)
		trip := l.roundTrip(op)
		mine, leads := op.standing()
		if stalls++; mine > most {
			most, stalls = mine, 0
		}
		pause := trip / 4 << stalls
		if !leads || stalls == maxStalls || decided.Add(pause+trip) > *bound || !l.rest(ctx, pause) {
			lock.claim.clear()
			return l.cut(ctx, op.failure())
		}
		op = lock.askAgain()
		if op == nil {
			return &stateError{"acquire", lock.claim.key, ErrClosed}
		}
		err := l.hear(ctx, op)
		switch op.outcome {
		case outbid:
			return l.raise(ctx, lock)
		case split:
		default:
			return err
		}
	}
}

// cut adds to what an attempt has failed of what else has ended it.
func (l *Locker) cut(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", err, endOf(ctx))
	case l.closed():
		return fmt.Errorf("%w: %w", err, ErrClosed)
	}
	return err
}

// askAgain puts the attempt before all nodes once more, as an operation with the same token.
// It returns nil if the Locker takes in no acquires any more.
func (l *Lock) askAgain() *operation {
	c, first := &l.claim, &l.acquire
	op := &operation{task: first.task, claim: c, lock: l, ttl: first.ttl, waits: first.waits, cmds: first.cmds}
	if first.fence != 0 {
		op.cmds = op.cmds[:len(op.cmds)-fenceReplies]
		op.carries(c.locker.propose()) // all votes of a lock are for one number, so this one is for a new number
	}
	if op.waits {
		op.full = make(chan struct{})
	}
	c.mu.Lock()
	l.contest.again = op
	c.mu.Unlock()
	if !op.ask(c.locker.nodes, c.locker.quorum) {
		c.clear()
		return nil
	}
	return op
}

// last is the last round of the acquire. claim.mu is held, or the acquire is over.
func (l *Lock) last() *operation {
	if l.contest != nil && l.contest.again != nil {
		return l.contest.again
	}
	return &l.acquire
}

// disputed reports whether an acquire that has failed may be settled: enough nodes answer,
// and no token is known to have a quorum of them. claim.mu is held.
func (op *operation) disputed() bool {
	_, held := op.has(op.need)
	return op.outcome == failed && op.task.finds && !held && op.answers(Failed) <= len(op.requests)-op.need
}

// standing counts the operation's votes, and reports whether it leads: it has the most votes,
// and among equals the greatest token, and a quorum if the others let go. Only tokens of this
// library's making lead and let go.
func (op *operation) standing() (mine int, leads bool) {
	c := op.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	mine = op.answers(Granted)
	free := mine + op.answers(Pending)
	for _, s := range op.sights {
		count := 0
		for _, other := range op.sights {
			if other.token == s.token && !other.void {
				count++
			}
		}
		if s.void || !marked(s.token) {
			continue
		}
		if count > mine || count == mine && s.token > c.token {
			return mine, false
		}
		free++
	}
	// Where votes are proved, asking again would write nothing, and prove nothing.
	return mine, mine > 0 && free >= op.need && c.locker.durability.command == ""
}

// insist is a try that is repeated while the votes are split, until the key is had, or is
// held, or one node time-out has passed. Where silent nodes hide whether a token has a quorum,
// it has one if the next try finds it again: a contender would have let go.
func (l *Locker) insist(ctx context.Context, key string, o *acquireOptions) (*Lock, error) {
	var bound clockdrift.Instant
	var before string
	for i := 0; ; i++ {
		lock, err := l.try(ctx, key, o, false, &bound)
		if err == nil || lock == nil || !taken(err) || ctx.Err() != nil || l.closed() {
			return lock, err
		}
		holder, certain := lock.last().rival()
		if certain || errors.Is(err, ErrTaken) && holder == before {
			return lock, err
		}
		before = holder
		// The leader needs about this long. Then it has the key, or has let go as well.
		if bound == 0 { // it was another caller's try
			bound = l.clock.Now().Add(l.options.timeout(o.ttl))
		}
		trip := l.roundTrip(lock.last())
		pause := 2*trip + rand.N(2*trip<<min(i, 8)) //nolint:gosec // nobody gains by guessing it
		if l.clock.Now().Add(pause) > bound {
			return lock, err
		}
		if !l.rest(ctx, pause) {
			return lock, l.cut(ctx, err)
		}
	}
}

// roundTrip is how long a round of this operation takes: until a quorum of the nodes had
// answered this one, or the nodes' distance if that is more.
func (l *Locker) roundTrip(op *operation) time.Duration {
	op.claim.mu.Lock()
	var took []time.Duration
	for i := range op.requests {
		if r := &op.requests[i]; r.answer == Granted || r.answer == Taken {
			took = append(took, r.answered.Sub(op.asked))
		}
	}
	op.claim.mu.Unlock()
	slices.Sort(took)
	trip := max(l.trip(), minTrip)
	if len(took) > 0 {
		trip = max(trip, min(took[min(op.need, len(took))-1], op.patience()/16))
	}
	return trip
}

// minTrip is the least that pauses between rounds are reckoned by, for goroutines want a turn.
const minTrip = 100 * time.Microsecond

// rest waits, and reports whether nothing has ended the waiting before.
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
