package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
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
	w := &waiter{locker: l, ctx: ctx, key: key, options: o, began: l.clock.Now()}
	if l.queues.has(key) && o.maxWait > 0 && o.retries > 0 {
		return w.wait(nil)
	}
	if o.maxWait == 0 || o.retries == 0 {
		attempt, err := l.insist(ctx, key, o)
		if err == nil {
			return attempt, nil
		}
		return nil, err
	}
	var bound clockdrift.Instant
	attempt, err := l.try(ctx, key, o, false, &bound)
	switch {
	case err == nil:
		return attempt, nil
	case attempt == nil:
		return nil, err
	case w.over(err):
		return nil, w.giveUp(err)
	}
	return w.wait(attempt)
}

// TryAcquire takes the lock on key if it is free, and does not wait for a holder. Its
// errors are those of [Locker.Acquire].
//
// Callers of one Locker that try for one key at the same time share a try: while one is out,
// those who come wait for the next, which asks for all of them. One of them gets the lock.
//
// Where several ask for a free key at the same moment, each may get some of the votes and
// nobody a quorum. That is settled within the call, for up to one node time-out: one of them
// gets the key, as a rule within two or three round trips, and the others then fail with
// [ErrTaken]. It cannot be promised. If nobody is known to have the key by then, the error is
// [ErrContended] and not [ErrTaken]: whoever skips a job on ErrTaken must not skip it on
// ErrContended, or no host may do it. Where so many nodes are silent that one of the others
// may have a quorum with them, and goes on to have the key, the error is ErrTaken. A try with
// a token of your own ([WithToken]) lets go of nothing, and only tries again.
func (l *Locker) TryAcquire(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	o, err := l.prepare(ctx, key, options)
	if err != nil {
		return nil, err
	}
	lock, err := l.insist(ctx, key, o)
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// prepare puts the options of one acquire together, and refuses what cannot come to pass.
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
	if held := l.holder(ctx, key); held != nil && (o.token == nil || *o.token != held.claim.token) {
		return nil, &stateError{"acquire", key, fmt.Errorf("%w: work under the lock that it carries (FromContext), or release that first", ErrDeadlock)}
	}
	return o, nil
}

// try is one attempt, with a claim of its own. With an error it returns the attempt that
// has failed, or nil if there was none. See [Locker.newLock] for waits, and [Locker.settle]
// for the bound.
func (l *Locker) try(ctx context.Context, key string, o *acquireOptions, waits bool, bound *clockdrift.Instant) (*Lock, error) {
	if l.closed() {
		return nil, &stateError{"acquire", key, ErrClosed}
	}
	if ctx.Err() != nil {
		return nil, &stateError{"acquire", key, endOf(ctx)}
	}
	if l.options.fences && !l.met.Load() {
		lock, err := l.newLock(ctx, key, o, waits)
		if err != nil {
			return nil, err
		}
		lock.acquire.meets()
		if lock, err = l.launch(ctx, lock, bound); err != nil {
			return lock, err
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
	lock.acquire.proposes()
	return l.launch(ctx, lock, bound)
}

// launch puts an attempt before the nodes and waits for what comes of it.
func (l *Locker) launch(ctx context.Context, lock *Lock, bound *clockdrift.Instant) (*Lock, error) {
	if !lock.acquire.ask(l.nodes, l.quorum) {
		return nil, &stateError{"acquire", lock.claim.key, ErrClosed}
	}
	return lock, l.await(ctx, lock, bound)
}

// await waits until an attempt is decided, and returns why it has failed if it has.
func (l *Locker) await(ctx context.Context, lock *Lock, bound *clockdrift.Instant) error {
	op := &lock.acquire
	err := l.hear(ctx, op)
	switch {
	case op.outcome == outbid:
		return l.raise(ctx, lock)
	case op.outcome == split:
		return l.settle(ctx, lock, bound)
	case lock.claim.own && taken(err):
		l.hearOut(ctx, op) // which of the two it is
		return l.cut(ctx, op.failure())
	}
	return err
}

// hear waits until a part of an attempt is decided, and drops it if the attempt ends
// first. It returns why it has failed if it has.
func (l *Locker) hear(ctx context.Context, op *operation) error {
	var interrupt error
	select {
	case <-op.done:
	case <-ctx.Done():
		interrupt = endOf(ctx)
	case <-l.closing:
		interrupt = ErrClosed
	}
	if interrupt != nil {
		op.drop()
	}
	op.claim.mu.Lock()
	defer op.claim.mu.Unlock()
	switch op.outcome {
	case carried:
		return nil
	case outbid:
		return op.fail(ErrFence)
	case dropped:
		return fmt.Errorf("%w: %w", op.fail(op.blame()), interrupt)
	}
	if op.lock != nil && op.lock.ended != nil {
		return op.fail(op.lock.ended)
	}
	return op.fail(op.blame())
}

// newLock makes what one attempt needs, if it succeeds to the end of the hold, in few
// pieces of memory. One that waits also wants to know how long the key is held.
func (l *Locker) newLock(ctx context.Context, key string, o *acquireOptions, waits bool) (*Lock, error) {
	if l.options.fences && l.microseconds() >= maxFence {
		return nil, &stateError{"acquire", key, fmt.Errorf("%w: by most nodes' clocks it is later than the year 2255: mend them", ErrFence)}
	}
	lock := &Lock{parent: ctx, maxHold: o.maxHold}
	if o.renews {
		lock.renewal = &renewal{lock: lock, options: o}
	}
	op := &lock.acquire
	op.claim, op.lock, op.ttl = &lock.claim, lock, o.ttl
	if o.token == nil {
		lock.claim = newClaim(l, key, newToken(), o.ttl)
		op.task = acquire
		w := &lock.words
		op.say(w, driver.Command{
			Args:     append(w.args[:0], "SET", lock.claim.keyArg, lock.claim.tokenArg, "NX", "GET", "PX", l.milliseconds(o.ttl)),
			FirstKey: 1, Keys: 1,
		})
		if waits {
			op.waits, op.full = true, make(chan struct{})
			op.cmds = append(op.cmds, driver.Command{Args: append(w.args[7:7], "PTTL", lock.claim.keyArg), FirstKey: 1, Keys: 1})
		}
	} else {
		if l.spent.has(*o.token, l.clock.Now()) {
			return nil, &stateError{"acquire", key, fmt.Errorf("%w: this token was released less than one TTL ago: take a new one", ErrReleased)}
		}
		lock.claim = newClaim(l, key, *o.token, o.ttl)
		lock.claim.own = true
		op.task = adopt
		w := &lock.words
		op.say(w, scripts.Hold.One(w.args[:], lock.claim.keyArg, lock.claim.tokenArg, l.milliseconds(o.ttl)))
		if !l.options.fences { // which end with the same question
			op.cmds = append(op.cmds, driver.Command{Args: append(w.args[8:8], "GET", lock.claim.keyArg), FirstKey: 1, Keys: 1})
		}
	}
	requests := make([]request, 2*len(l.nodes))
	op.requests, lock.release.requests = requests[:len(l.nodes)], requests[len(l.nodes):]
	return lock, nil
}

// begin takes the deciding vote of an acquire: it begins the hold, or undoes the
// attempt. An attempt whose votes were split keeps them for now: see [Locker.settle]. The
// lease runs since the first round, which may have set the key. claim.mu is held.
func begin(op *operation, now clockdrift.Instant) {
	l := op.lock
	if op.outcome == carried && op != &l.acquire {
		op.start = l.acquire.first()
	}
	switch {
	case op.disputed():
		op.outcome = split
		if op.full == nil {
			op.full = make(chan struct{})
		}
		if l.contest == nil {
			l.contest = &contest{over: make(chan struct{})}
		}
		return
	case op.outcome == outbid, op.outcome == carried && l.hold(op, now):
		return
	case l.ended == nil:
		l.ended = op.blame()
	}
	l.claim.loud = l.claim.loud || op.alarming()
	if l.claim.own && op.full == nil {
		op.full = make(chan struct{})
	}
	op.clears = true
}

// hold begins the hold that a quorum has granted, unless that came too late: then the
// operation has failed. claim.mu is held.
func (l *Lock) hold(op *operation, now clockdrift.Instant) bool {
	l.until, l.ends = op.deadline(), op.start.Add(l.maxHold)
	switch {
	case now >= l.until, op.fence != 0 && op.outlived(now):
		l.ended = ErrExpired
	case !l.claim.locker.holds.add(l):
		l.ended = ErrClosed
	default:
		l.claim.loud = true
		l.fence = op.fence
		if l.renewal != nil {
			l.renewal.begin(op.start)
		}
		return true
	}
	op.outcome = failed
	return false
}

// backoff is the pause after the given try: full jitter over a bound that doubles.
func (o *acquireOptions) backoff(try int) time.Duration {
	bound := o.backoffMax
	if try < 32 && o.backoffMin<<try > 0 {
		bound = min(bound, o.backoffMin<<try)
	}
	return rand.N(bound) + 1 //nolint:gosec // nobody gains by guessing a pause
}

// taken reports whether a try has failed because others have the key, or parts of the votes.
func taken(err error) bool { return errors.Is(err, ErrTaken) || errors.Is(err, ErrContended) }

// worthWaiting reports whether a later try may do better by itself. It may not if so
// many nodes refuse for a lasting reason that the others are no quorum.
func worthWaiting(err error) bool {
	switch {
	case errors.Is(err, ErrClosed):
		return false
	case taken(err), errors.Is(err, ErrExpired):
		return true
	}
	var quorum *QuorumError
	if !errors.As(err, &quorum) {
		return false
	}
	refusals := 0
	for _, vote := range quorum.Votes {
		if lasting(vote.Err) {
			refusals++
		}
	}
	return len(quorum.Votes)-refusals >= quorum.Need
}

// waitsForQuarantine reports whether a quorum is there, and will vote when the quarantine
// of some nodes has passed.
func waitsForQuarantine(err error) bool {
	var quorum *QuorumError
	if !errors.As(err, &quorum) {
		return false
	}
	there := 0
	for _, vote := range quorum.Votes {
		if vote.Err == nil && vote.Answer != Pending || errors.Is(vote.Err, ErrQuarantine) {
			there++
		}
	}
	return there >= quorum.Need
}

// endOf says that ctx has ended, and why.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// milliseconds returns a TTL as servers take it, boxed.
func (l *Locker) milliseconds(ttl time.Duration) any {
	if ttl == l.options.acquire.ttl {
		return l.usualTTL
	}
	return strconv.FormatInt(ttl.Milliseconds(), 10)
}

// checkLease refuses a TTL that is not valid, or that one slow node would eat.
func (l *Locker) checkLease(ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	if timeout := l.options.timeout(ttl); timeout >= ttl {
		return &OptionError{"TTL", fmt.Sprintf("%v is not above the node time-out of %v: one silent node would eat the lease", ttl, timeout)}
	}
	for _, guard := range []time.Duration{l.options.guard, l.options.clockGuard} {
		if guard != 0 && ttl > guard {
			return &OptionError{"TTL", fmt.Sprintf("%v is longer than %v, the longest lease that the guard knows of: give all clients a longer one, or take a shorter TTL", ttl, guard)}
		}
	}
	if !l.durability.fits(&l.options, ttl) {
		return &OptionError{"TTL", fmt.Sprintf("%v has no room for the node time-out and %v that a durable vote may take: take a longer TTL or a shorter DurableTimeout", ttl, l.durability.timeout)}
	}
	return nil
}
