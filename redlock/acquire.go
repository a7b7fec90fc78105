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
// the key, or of one that others in this process wait for whom this would wait for),
// [ErrClosed], or [ErrOption]. Where ctx ended, it also matches the context's
// error and cause. A [*QuorumError] in it has every node's answer.
func (l *Locker) Acquire(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: KindExclusive, Waits: true}, func(ctx context.Context) (*acquireOptions, error) {
		return l.prepare(ctx, key, options)
	}, asLock)
}

func asLock(h handle) *Lock { return &Lock{h} }

// obtain is the call that takes a lock of any kind: what is to be taken, and how, says prepare; a
// view of a lock that ctx carries is made by view. The hooks are told.
func obtain[L public](ctx context.Context, l *Locker, call AcquireStart, prepare func(context.Context) (*acquireOptions, error), view func(handle) L) (lock L, err error) {
	ctx, told := l.starts(ctx, call)
	o, err := prepare(ctx)
	switch {
	case err != nil:
	case o.within != nil:
		if told != nil {
			told.how = HowReentered
		}
		lock, err = enter(ctx, o, view)
	default:
		if told != nil {
			o = o.watchedBy(told)
		}
		var held *lease
		if held, err = l.take(ctx, call.Key, o, call.Waits); err == nil {
			lock = any(held.public).(L)
		}
	}
	ends(told, lock, err)
	return lock, err
}

// take takes a lock of any kind, and waits for it if it may.
func (l *Locker) take(ctx context.Context, key string, o *acquireOptions, waits bool) (*lease, error) {
	switch {
	case !waits || o.maxWait == 0 || o.retries == 0:
		return l.insist(ctx, key, o)
	case o.several():
		return l.acquireAll(ctx, key, o)
	}
	return l.acquire(ctx, key, o)
}

// acquire takes one key, or waits for it.
func (l *Locker) acquire(ctx context.Context, key string, o *acquireOptions) (*lease, error) {
	began := l.clock.Now()
	if l.linesOf(o.kind).Has(key) && !o.kind.passes() {
		return l.wait(l.waiter(ctx, key, o, began), nil)
	}
	lock, err := l.first(ctx, key, o)
	if err == nil || lock == nil {
		return lock, err
	}
	l.told(lock.last().ClockOffset())
	w := l.waiter(ctx, key, o, began)
	if w.Over(err) {
		return nil, w.GiveUp(err)
	}
	return l.wait(w, lock)
}

// first is the first try of an acquire that may wait. Where it may wait for no more than some rounds of a
// split, it settles that as an acquire does that may not: else it would have the worse chance of the two.
func (l *Locker) first(ctx context.Context, key string, o *acquireOptions) (*lease, error) {
	if o.maxWait < 2*l.options.timeout(o.ttl) {
		return l.insist(ctx, key, o)
	}
	var bound clockdrift.Instant
	return l.try(ctx, key, o, false, &bound)
}

// TryAcquire takes the lock on key if it is free, and does not wait for a holder. Its
// errors are those of [Locker.Acquire].
//
// Callers of one Locker that try for one key at the same time share a try: while one is out,
// later callers wait for the next, which asks for all of them. One of them gets the lock.
//
// Contenders that ask for a free key at the same moment may each get some of the votes and none
// a quorum. The call settles that among the nodes that answer, for about one node time-out: as a
// rule one of them gets the key within a few round trips, also beside silent nodes, and the others
// fail with [ErrTaken]. This is not promised. If nobody is known to have the key by then, the
// error is [ErrContended]: a caller that skips a job on ErrTaken must not skip it on
// ErrContended, or no host may do it.
//
// ErrTaken says that a quorum of the nodes names one token; or that one token was there for a
// whole node time-out, and may have a quorum with the nodes that are silent: so a key that is held
// at nodes of which some are silent may cost the call that time. The latter is not said of tokens
// that are not of this library's making, because such votes stay though nobody holds the key: see
// [WithToken].
func (l *Locker) TryAcquire(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: KindExclusive}, func(ctx context.Context) (*acquireOptions, error) {
		return l.prepare(ctx, key, options)
	}, asLock)
}

// prepare puts the options of one acquire together, and refuses an acquire that cannot succeed.
func (l *Locker) prepare(ctx context.Context, key string, options []AcquireOption) (*acquireOptions, error) {
	o, err := l.configure(key, options)
	if err != nil {
		return nil, err
	}
	switch held := l.holder(ctx, key); {
	case held == nil, o.token != nil && *o.token == held.attempt.Token:
	case o.reenters && o.token == nil && o.covered(held):
		own := *o
		own.within = held
		o = &own
	case o.joins(held):
	case held.attempt.Kind.Joins:
		return nil, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: this context shares it already: TryUpgrade the lock that it carries, or release that first", ErrDeadlock)}
	default:
		return nil, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: this context holds it already: work under the lock that it carries (FromContext), acquire it WithReentry, or release that first", ErrDeadlock)}
	}
	return o, nil
}

// configure puts the options of one acquire of a key together.
func (l *Locker) configure(key string, options []AcquireOption) (*acquireOptions, error) {
	o := &l.options.acquire
	if len(options) > 0 {
		own := *o
		own.names = false // a name that all acquires have does no harm to a token
		if err := apply(options, func(option AcquireOption) { option.acquire(&own) }); err != nil {
			return nil, err
		}
		if own.token != nil && own.kind == inLine { // it may hold the key already
			own.kind = exclusive
		}
		if err := own.check(); err != nil {
			return nil, err
		}
		if err := l.checkLease(own.ttl); err != nil {
			return nil, err
		}
		own.ttl = protocol.RoundUp(own.ttl)
		o = &own
	}
	if err := l.options.checkKey(key); err != nil {
		return nil, err
	}
	switch {
	case l.options.detects:
		return o, l.options.checkNames(key, "those who look for deadlocks")
	case o.kind.Stands:
		return o, l.options.checkNames(key, "locks that take turns")
	case o.kind.Joins:
		return o, l.options.checkNames(key, "shared locks")
	}
	return o, nil
}

// try asks for the lock once, in any of the places that its kind has. With an error it returns the
// failed attempt, or nil if there was none. See [Locker.newLock] for waits, and [Locker.settle] for
// the bound.
func (l *Locker) try(ctx context.Context, key string, o *acquireOptions, waits bool, bound *clockdrift.Instant) (*lease, error) {
	if o.told != nil {
		o.told.tries++
	}
	if o.kind.try != nil {
		return o.kind.try(ctx, key, o, waits, bound)
	}
	return l.tryOne(ctx, key, o, waits, bound)
}

// tryOne is one attempt, with a token of its own.
func (l *Locker) tryOne(ctx context.Context, key string, o *acquireOptions, waits bool, bound *clockdrift.Instant) (*lease, error) {
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
	if !waits && o.token == nil && o.kind.Many == nil && !o.kind.joins() && !o.kind.Stands && (o.kind.slots == nil || o.turn != nil) {
		return l.share(ctx, key, o, bound)
	}
	lock, err := l.newLock(ctx, key, o, waits)
	if err == nil && lock.attempt.Own && lock.attempt.IsStill() {
		lock, err = l.approach(ctx, lock, func() (*lease, error) { return l.newLock(ctx, key, o, waits) })
	}
	if err != nil {
		return lock, err
	}
	lock.acquire.Propose()
	return l.launch(ctx, lock, bound)
}

// newLock allocates an attempt and the hold that may follow, in few pieces of memory. An attempt
// that waits also asks how long the key is held.
func (l *Locker) newLock(ctx context.Context, key string, o *acquireOptions, waits bool) (*lease, error) {
	if l.options.fences && l.board.Microseconds() >= protocol.MaxFence {
		return nil, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: by most nodes' clocks it is later than the year 2255: mend them", ErrFence)}
	}
	lock := o.kind.lease()
	lock.locker, lock.parent, lock.maxHold, lock.told = l, ctx, o.maxHold, o.told
	if o.renews {
		lock.renewal = &renewal{lock: lock, options: o}
	}
	kind, op := o.kind.Kind, &lock.acquire
	lock.attempt.Stand, lock.attempt.Turn = o.stand, o.turn
	op.Owner, op.Decided, op.Seen, op.Since = lock, begin, o.seen.Token, o.seen.Since
	if o.token == nil {
		lock.attempt.Init(l.board, kind, key, l.board.Random.Token(o.owner), o.ttl)
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
func (l *lease) meet() {
	op := &l.acquire
	op.Op, op.Cmds, op.Decided = protocol.Meet, []driver.Command{protocol.AskTime}, nil
	op.Full = make(chan struct{})
}

// launch asks all nodes for the lock and awaits the decision.
func (l *Locker) launch(ctx context.Context, lock *lease, bound *clockdrift.Instant) (*lease, error) {
	if !lock.acquire.AskAll() {
		return nil, &fault.StateError{Op: "acquire", Key: lock.attempt.Key, Why: ErrClosed}
	}
	return lock, l.await(ctx, lock, bound)
}

// await waits until an attempt is decided, and returns the reason of a failure.
func (l *Locker) await(ctx context.Context, lock *lease, bound *clockdrift.Instant) error {
	op := &lock.acquire
	err := l.result(ctx, op)
	switch {
	case op.Outcome == quorum.Outbid:
		return l.raise(ctx, lock)
	case op.Outcome == quorum.Split:
		return l.settle(ctx, lock, bound)
	case lock.attempt.Own && taken(err):
		return l.lose(ctx, lock, lock.attempt.BeStill)
	case lock.attempt.Own && err != nil:
		op.Dismiss()
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
	if lock, ok := op.Owner.(*lease); ok && lock.ended != nil {
		return failure(op, lock.ended)
	}
	return failure(op, op.FailureReason())
}

// awaitMore waits a moment for late answers after a failure: the next step depends on who has the
// key.
func (l *Locker) awaitMore(ctx context.Context, op *quorum.Operation) {
	if op.Full != nil {
		l.awaitAll(ctx, op, op.Late())
		op.Dismiss()
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
	l := op.Owner.(*lease)
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
func (l *lease) hold(op *quorum.Operation, now clockdrift.Instant) bool {
	l.until, l.ends = op.Deadline(), op.Start.Add(l.maxHold)
	if l.from != nil {
		l.ends = l.from.ends
		l.until = min(l.until, l.ends)
	}
	switch {
	case now >= l.until, op.Outlived(now):
		l.ended = ErrExpired
	case l.attempt.Spent(now): // while it was asked for
		l.ended = ErrReleased
	case !l.locker.holds.add(l):
		l.ended = ErrClosed
	case l.from != nil && !l.from.goesOn(l, now):
		l.locker.holds.remove(l)
		l.ended = ErrLost
	default:
		l.attempt.Loud = true
		l.places.begin(l)
		l.fence = op.Number()
		if l.told != nil {
			l.told.holds(l, now)
		}
		if l.renewal != nil {
			l.renewal.begin(op.Start)
		}
		return true
	}
	op.Outcome = quorum.Failed
	return false
}
