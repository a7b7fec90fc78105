package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A flight is one try for a key on behalf of all callers of this Locker that have asked for it
// while the try before was out. So the nodes see one try a key and round trip, however often
// it is asked for here. Its answer counts for those who came before it left; who comes later
// is in the next flight. The first of them leads: he waits until the try before is over, and
// then asks the nodes for all.
//
// Only what the nodes refuse is shared. A lock goes to the leader, and the others are told
// what the nodes would have told them right behind him.
type flight struct {
	over    chan struct{} // closed when its answer is there, or its leader has left without one
	refused *Lock         // an attempt that has failed, with the votes; nil: there is no answer
	err     error         // why it has failed
}

// board lets a try into the lane of its key, unless another one is out there. Otherwise the
// caller is in the flight f. If ahead is not nil he leads it, and holds the lane, to depart or
// leave when that try is over. All is nil if no try is let in.
func (ls *lanes) board(op *operation, nodes int) (l *lane, f *flight, ahead *operation) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.shut {
		return nil, nil, nil
	}
	l = ls.of(op.claim.keyArg.(string), nodes)
	switch {
	case l.out == nil || !l.out.undecided():
		l.out = op
	case l.next == nil:
		l.next = &flight{over: make(chan struct{})}
		ls.flights.Add(1)
		f, ahead = l.next, l.out
	default:
		return nil, l.next, nil
	}
	l.users++
	return l, f, ahead
}

// stay keeps the lane of a try whose votes were split, and that nobody else of this Locker
// tries, until it is settled. It wants a leave.
func (ls *lanes) stay(op *operation, nodes int) *lane {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.of(op.claim.keyArg.(string), nodes)
	l.users++
	if l.out == nil { // all nodes had answered, so that the lane was given up
		l.out = op
	}
	return l
}

// depart notes that the flight that forms in l leaves, as op, or with nobody if that is nil.
func (ls *lanes) depart(l *lane, op *operation) {
	ls.mu.Lock()
	l.next = nil
	if op != nil {
		l.out = op
	}
	ls.mu.Unlock()
	ls.flights.Add(-1)
}

// forming returns the flight for key that has not left yet, or nil.
func (ls *lanes) forming(key string) *flight {
	if ls.flights.Load() == 0 {
		return nil
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byKey[key]; l != nil {
		return l.next
	}
	return nil
}

// undecided reports whether nobody knows yet what comes of a try, its later rounds included.
func (op *operation) undecided() bool {
	return !isClosed(op.done) || op.lock.contest != nil && !isClosed(op.lock.contest.over)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// share is a try that shares the answer of another one if it can.
func (l *Locker) share(ctx context.Context, key string, o *acquireOptions, bound *clockdrift.Instant) (*Lock, error) {
	for {
		f := l.lanes.forming(l.options.prefix + key)
		if f == nil {
			lock, err := l.newLock(ctx, key, o, false)
			if err != nil {
				return nil, err
			}
			var leads bool
			switch f, leads, err = l.board(ctx, lock); {
			case err != nil:
				return nil, err
			case f == nil || leads:
				lock.acquire.proposes()
				lock, err = l.launch(ctx, lock, bound)
				f.land(lock, err, ctx.Err() != nil || l.closed())
				return lock, err
			}
		}
		if err := l.pass(ctx, key, f.over); err != nil {
			return nil, err
		}
		if f.refused != nil {
			return f.refused, f.err
		}
	}
}

// board lets an attempt into its lane, alone, or as the leader of a flight that it returns when
// that leaves. Otherwise the attempt is not needed, for the caller is in that flight.
func (l *Locker) board(ctx context.Context, lock *Lock) (f *flight, leads bool, err error) {
	op := &lock.acquire
	op.done = make(chan struct{})
	lane, f, ahead := l.lanes.board(op, len(l.nodes))
	switch {
	case lane == nil && f == nil:
		return nil, false, &stateError{"acquire", lock.claim.key, ErrClosed}
	case ahead == nil:
		op.lane = lane
		return f, false, nil
	}
	err = l.pass(ctx, lock.claim.key, ahead.done)
	if contest := ahead.lock.contest; err == nil && contest != nil {
		err = l.pass(ctx, lock.claim.key, contest.over)
	}
	if err != nil {
		l.lanes.depart(lane, nil)
		close(f.over)
		l.lanes.leave(lane)
		return nil, false, err
	}
	l.lanes.depart(lane, op)
	op.lane = lane
	return f, true, nil
}

// pass waits for somebody else's try.
func (l *Locker) pass(ctx context.Context, key string, over <-chan struct{}) error {
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return &stateError{"acquire", key, endOf(ctx)}
	case <-l.closing:
		return &stateError{"acquire", key, ErrClosed}
	}
}

// land ends a flight, if there is one, with what has come of its leader's attempt. If he was
// interrupted, the others have to ask again.
func (f *flight) land(lock *Lock, err error, interrupted bool) {
	switch {
	case f == nil:
		return
	case err == nil:
		f.refused = lock.behind()
		f.err = f.refused.acquire.failure()
	case !interrupted:
		f.refused, f.err = lock, err
	}
	close(f.over)
}

// behind is the attempt that comes right behind one that has the lock: it is refused where that
// one was granted.
func (l *Lock) behind() *Lock {
	l.claim.mu.Lock()
	defer l.claim.mu.Unlock()
	won := l.last()
	refused := &Lock{parent: l.parent}
	refused.claim = newClaim(l.claim.locker, l.claim.key, "", won.ttl)
	op := &refused.acquire
	op.task, op.claim, op.lock, op.ttl, op.need = acquire, &refused.claim, refused, won.ttl, won.need
	op.asked, op.outcome = won.asked, failed
	op.requests = make([]request, len(won.requests))
	op.sights = make([]sight, len(won.requests))
	for i := range won.requests {
		r := &won.requests[i]
		op.requests[i] = request{op: op, node: r.node, answer: r.answer, answered: r.answered, err: r.err}
		if r.answer == Granted {
			op.requests[i].answer = Taken
			op.sights[i] = sight{taken: true, token: l.claim.token}
		}
	}
	return refused
}
