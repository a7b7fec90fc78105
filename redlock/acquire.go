package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Acquire takes the lock on key, and waits while somebody else has it: until ctx
// ends, or for as long as [WithMaxWait] and [WithRetryLimit] allow.
//
// The error matches [ErrTaken] (somebody else has the key), [ErrContended] (several asked for
// it at once, and nobody has it; see [Locker.TryAcquire]), [ErrNoQuorum] (too few
// nodes answer; see [WithMaxOutage]), [ErrNode] besides (some are unfit), [ErrExpired]
// (the nodes are too slow for the TTL), [ErrReleased] (the token of [WithToken] is
// spent), [ErrDeadlock] (ctx is, or descends from, the [Lock.Context] of a lock that has
// the key), [ErrClosed], or [ErrOption]. Where ctx ended, it also matches the context's
// error and cause. A [*QuorumError] in it has every node's answer.
func (l *Locker) Acquire(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	o, err := l.prepare(ctx, key, options)
	if err != nil {
		return nil, err
	}
	if o.maxWait == 0 || o.retries == 0 {
		return lockOrError(l.insist(ctx, key, o))
	}
	began := l.clock.Now()
	if l.lines.Has(key) {
		return wait(l.waiter(ctx, key, o, began), nil)
	}
	var bound clockdrift.Instant
	lock, err := l.try(ctx, key, o, false, &bound)
	if err == nil || lock == nil {
		return lock, err
	}
	w := l.waiter(ctx, key, o, began)
	if w.Over(err) {
		return nil, w.GiveUp(err)
	}
	return wait(w, lock)
}

// lockOrError returns no lock with an error, but an attempt that has failed.
func lockOrError(lock *Lock, err error) (*Lock, error) {
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// TryAcquire takes the lock on key if it is free, and does not wait for a holder. Its
// errors are those of [Locker.Acquire].
//
// Callers of one Locker that try for one key at the same time share a try: while one is out,
// later callers wait for the next, which asks for all of them. One of them gets the lock.
//
// Contenders that ask for a free key at the same moment may each get some of the votes and none
// a quorum. The call settles that, for up to one node time-out: as a rule one of them gets
// the key within two or three round trips, and the others fail with [ErrTaken]. This is not
// promised. If nobody is known to have the key by then, the error is [ErrContended]: a caller
// that skips a job on ErrTaken must not skip it on ErrContended, or no host may do it. If the
// silent nodes may give another contender a quorum, and it still has the key at the next try,
// the error is ErrTaken. A try with a token of your own ([WithToken]) releases no votes, and
// only tries again.
func (l *Locker) TryAcquire(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	o, err := l.prepare(ctx, key, options)
	if err != nil {
		return nil, err
	}
	return lockOrError(l.insist(ctx, key, o))
}

// prepare puts the options of one acquire together, and refuses an acquire that cannot succeed.
func (l *Locker) prepare(ctx context.Context, key string, options []AcquireOption) (*acquireOptions, error) {
	o := &l.options.acquire
	if len(options) > 0 {
		own := *o
		if err := apply(options, func(option AcquireOption) { option.acquire(&own) }); err != nil {
			return nil, err
		}
		if err := own.check(); err != nil {
			return nil, err
		}
		o = &own
	}
	if err := l.checkLease(o.ttl); err != nil {
		return nil, err
	}
	if err := l.options.checkKey(key); err != nil {
		return nil, err
	}
	if held := l.holder(ctx, key); held != nil && (o.token == nil || *o.token != held.attempt.Token) {
		return nil, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: work under the lock that it carries (FromContext), or release that first", ErrDeadlock)}
	}
	return o, nil
}

// try is one attempt, with a token of its own. With an error it returns the failed attempt, or
// nil if there was none. See [Locker.newLock] for waits, and [Locker.settle] for the bound.
func (l *Locker) try(ctx context.Context, key string, o *acquireOptions, waits bool, bound *clockdrift.Instant) (*Lock, error) {
	if l.closed() {
		return nil, &fault.StateError{Op: "acquire", Key: key, Why: ErrClosed}
	}
	if ctx.Err() != nil {
		return nil, &fault.StateError{Op: "acquire", Key: key, Why: fault.EndOf(ctx)}
	}
	if l.options.fences && !l.met.Load() {
		lock, err := l.newLock(ctx, key, o, waits)
		if err != nil {
			return nil, err
		}
		lock.meet()
		if lock, err = l.launch(ctx, lock, bound); err != nil {
			return lock, err
		}
		if op := &lock.acquire; !l.board.ClocksAgree() { // the others may outvote wrong clocks
			l.awaitAll(ctx, op, op.Patience())
		}
		l.met.Store(true)
	}
	if !waits && o.token == nil {
		return l.share(ctx, key, o, bound)
	}
	lock, err := l.newLock(ctx, key, o, waits)
	if err != nil {
		return nil, err
	}
	lock.acquire.Propose()
	return l.launch(ctx, lock, bound)
}

// newLock allocates an attempt and the hold that may follow, in few pieces of memory. An attempt
// that waits also asks how long the key is held.
func (l *Locker) newLock(ctx context.Context, key string, o *acquireOptions, waits bool) (*Lock, error) {
	if l.options.fences && l.board.Microseconds() >= protocol.MaxFence {
		return nil, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: by most nodes' clocks it is later than the year 2255: mend them", ErrFence)}
	}
	lock := &Lock{locker: l, parent: ctx, maxHold: o.maxHold}
	if o.renews {
		lock.renewal = &renewal{lock: lock, options: o}
	}
	kind, op := o.kind, &lock.acquire
	op.Owner, op.Decided = lock, begin
	if o.token == nil {
		lock.attempt.Init(l.board, kind, key, l.board.Random.Token(), o.ttl)
		op.Prepare(&lock.attempt, kind.Acquire, o.ttl)
		if waits {
			op.Waits, op.Full = true, make(chan struct{})
		}
	} else {
		if l.board.Spent.Has(*o.token, l.clock.Now()) {
			return nil, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: this token was released less than one TTL ago: take a new one", ErrReleased)}
		}
		lock.attempt.Init(l.board, kind, key, *o.token, o.ttl)
		lock.attempt.Own = true
		op.Prepare(&lock.attempt, kind.Adopt, o.ttl)
	}
	op.Encode(&lock.memory)
	op.Reserve(&lock.release)
	return lock, nil
}

// meet makes the acquire a [protocol.Meet], which only reads the nodes' clocks.
func (l *Lock) meet() {
	op := &l.acquire
	op.Op, op.Cmds, op.Decided = protocol.Meet, []driver.Command{protocol.AskTime}, nil
	op.Full = make(chan struct{})
}

// launch asks all nodes for the lock and awaits the decision.
func (l *Locker) launch(ctx context.Context, lock *Lock, bound *clockdrift.Instant) (*Lock, error) {
	if !lock.acquire.AskAll() {
		return nil, &fault.StateError{Op: "acquire", Key: lock.attempt.Key, Why: ErrClosed}
	}
	return lock, l.await(ctx, lock, bound)
}

// await waits until an attempt is decided, and returns the reason of a failure.
func (l *Locker) await(ctx context.Context, lock *Lock, bound *clockdrift.Instant) error {
	op := &lock.acquire
	err := l.result(ctx, op)
	switch {
	case op.Outcome == quorum.Outbid:
		return l.raise(ctx, lock)
	case op.Outcome == quorum.Split:
		return l.settle(ctx, lock, bound)
	case lock.attempt.Own && taken(err):
		l.awaitMore(ctx, op) // the late answers tell a holder from a contender
		return l.cut(ctx, failed(op))
	}
	return err
}

// result waits until an operation is decided, and drops it if ctx ends or the Locker is closed
// first. It returns the reason of a failure.
func (l *Locker) result(ctx context.Context, op *quorum.Operation) error {
	var interrupt error
	select {
	case <-op.Done:
	case <-ctx.Done():
		interrupt = fault.EndOf(ctx)
	case <-l.closing:
		interrupt = ErrClosed
	}
	if interrupt != nil {
		op.Drop()
	}
	op.Attempt.Mu.Lock()
	defer op.Attempt.Mu.Unlock()
	switch op.Outcome {
	case quorum.Carried:
		return nil
	case quorum.Outbid:
		return failure(op, ErrFence)
	case quorum.Dropped:
		return fmt.Errorf("%w: %w", failure(op, op.FailureReason()), interrupt)
	}
	if lock, ok := op.Owner.(*Lock); ok && lock.ended != nil {
		return failure(op, lock.ended)
	}
	return failure(op, op.FailureReason())
}

// awaitMore waits a moment for late answers after a failure: the next step depends on who has the
// key.
func (l *Locker) awaitMore(ctx context.Context, op *quorum.Operation) {
	if op.Full != nil {
		l.awaitAll(ctx, op, max(4*l.board.Trip(), 2*time.Millisecond))
	}
}

// awaitAll waits until all nodes have answered, and at most for most.
func (l *Locker) awaitAll(ctx context.Context, op *quorum.Operation, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-op.Full:
	case <-timer.C:
	case <-ctx.Done():
	case <-l.closing:
	}
}

// begin takes the deciding vote of an acquire: it begins the hold, or undoes the attempt. Split
// votes are kept for now: see [Locker.settle]. The lease counts from the first round, which may
// have set the key. attempt.Mu is held.
func begin(op *quorum.Operation, now clockdrift.Instant) {
	l := op.Owner.(*Lock)
	a := &l.attempt
	if op.Outcome == quorum.Carried && op != &l.acquire {
		op.Start = l.acquire.First()
	}
	switch {
	case op.Disputed():
		op.Outcome = quorum.Split
		if op.Full == nil {
			op.Full = make(chan struct{})
		}
		if a.Contest == nil {
			a.Contest = &quorum.Contest{Over: make(chan struct{})}
		}
		return
	case op.Outcome == quorum.Outbid, op.Outcome == quorum.Carried && l.hold(op, now):
		return
	case l.ended == nil:
		l.ended = op.FailureReason()
	}
	a.Loud = a.Loud || op.Alarming()
	if a.Own && op.Full == nil {
		op.Full = make(chan struct{})
	}
	op.Clears = true
}

// hold begins the hold that a quorum has granted. After the deadline the operation fails instead.
// attempt.Mu is held.
func (l *Lock) hold(op *quorum.Operation, now clockdrift.Instant) bool {
	l.until, l.ends = op.Deadline(), op.Start.Add(l.maxHold)
	switch {
	case now >= l.until, op.Outlived(now):
		l.ended = ErrExpired
	case !l.locker.holds.add(l):
		l.ended = ErrClosed
	default:
		l.attempt.Loud = true
		l.fence = op.Fence.Number
		if l.renewal != nil {
			l.renewal.begin(op.Start)
		}
		return true
	}
	op.Outcome = quorum.Failed
	return false
}
