package redlock

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// Acquire takes the lock on key, and waits while somebody else has it: until ctx ends, or for as
// long as [WithMaxWait] allows.
//
// The error matches [ErrTaken], [ErrContended], [ErrNoQuorum] (see [WithMaxOutage]), with [ErrNode] if some
// nodes are unfit, [ErrExpired], [ErrReleased] (the token of [WithToken] is spent), [ErrDeadlock], [ErrFence],
// [ErrBusy], [ErrClosed] or [ErrOption]; where ctx ended, also the context's error and cause. A [*QuorumError]
// in it has every node's answer.
func (l *Locker) Acquire(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: kindExclusive, Waits: true}, func(ctx context.Context) (request, error) {
		return l.prepare(ctx, key, exclusive, options)
	})
}

// obtain is the call that takes a lock of any kind: prepare makes the request. The hooks are told.
func obtain(ctx context.Context, l *Locker, call AcquireStart, prepare func(context.Context) (request, error)) (lock *Lock, err error) {
	ctx, acq := l.starts(ctx, call)
	r, err := prepare(ctx)
	if err == nil {
		r.key, r.acquisition = call.Key, acq
		var held *lease
		if held, err = l.take(ctx, r, call.Waits); err == nil {
			lock = held.handOut()
		}
	}
	ends(acq, lock, err)
	return lock, err
}

// take takes a lock of any kind, and waits for the lock if the request may.
func (l *Locker) take(ctx context.Context, r request, waits bool) (*lease, error) {
	if !l.admits() {
		return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: fmt.Errorf("%w: %d are under way in this Locker: ask for fewer, or allow more with WithMaxAcquires", ErrBusy, l.options.most)}
	}
	defer l.acquires.Add(-1)
	var began clockdrift.Instant
	patience := time.Duration(math.MaxInt64)
	if waits = waits && r.maxWait > 0; waits {
		began, patience = l.clock.Now(), r.maxWait
		// Where the order is by tickets, the first try leaves one.
		if l.behind(r) || r.kind == fair && patience >= 2*l.options.timeout(r.ttl) && l.site.Dates.Of(began) != 0 {
			return l.wait(l.waiter(ctx, r, began), nil)
		}
	}
	switch crowded, err := l.room.Enter(ctx, l.options.timeout(r.ttl), patience); {
	case err != nil:
		return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: err}
	case crowded:
		r.visit = &visit{&l.room}
	}
	lock, err := l.insist(ctx, r, waits && r.maxWait >= 2*l.options.timeout(r.ttl))
	if err == nil || lock == nil || !waits {
		return lock, err
	}
	l.site.Dates.Learn(lock.hold.Last().Found().Clock)
	w := l.waiter(ctx, r, began)
	if w.Over(err) {
		return nil, w.GiveUp(err)
	}
	return l.wait(w, lock)
}

// admits counts a new acquire. False: as many are under way as may be. A refused acquire is never counted:
// callers that try again at once would keep all others out.
func (l *Locker) admits() bool {
	for {
		switch under := l.acquires.Load(); {
		case under >= int64(l.options.most):
			return false
		case l.acquires.CompareAndSwap(under, under+1):
			return true
		}
	}
}

// A visit is the place of a caller in a crowded room. It ends where the try waits behind others of its key,
// or a few hot keys would take the room of all others.
type visit struct{ *waiting.Room }

func (v *visit) end() {
	if v != nil && v.Room != nil {
		v.Leave()
		v.Room = nil
	}
}

// TryAcquire takes the lock on key if the key is free, and does not wait for a holder. Its errors are those of
// [Locker.Acquire]: [ErrTaken] also where the key was released, and is kept for somebody who has waited for
// it. Callers of one Locker that try for a key at the same time share a try.
//
// Contenders that ask for a free key at the same moment may each get some of the votes and none a quorum. The
// call settles the split, for about one node time-out: as a rule one contender gets the key within a few round
// trips, and the others fail with [ErrTaken]. If no holder is known by then, the error is [ErrContended]: a
// caller that skips a job on ErrTaken must not skip it on ErrContended, or no host may do the job.
func (l *Locker) TryAcquire(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: kindExclusive}, func(ctx context.Context) (request, error) {
		return l.prepare(ctx, key, exclusive, options)
	})
}

// A request is the wish of one call. It goes from step to step by value, and each step adds its findings.
type request struct {
	*settings
	key         string // in errors
	kind        *kind
	line        *protocol.Line      // for the tickets in line
	held        []string            // the keys of the caller's context, in order, of a request that heeds the line
	ticket      *quorum.Ticket      // of a waiter; nil: the call does not wait
	seen        acquire.Sighting    // by the tries before
	bound       *clockdrift.Instant // the end of settling splits: see [quorum.Hold.Bound]
	acquisition *acquisition        // whom the hooks are told of; nil: nobody wants to be told
	visit       *visit              // nil: the room of first tries is not crowded
}

// prepare makes the request for a key, and refuses a request that cannot succeed.
func (l *Locker) prepare(ctx context.Context, key string, of *kind, options []AcquireOption) (request, error) {
	r, err := l.configure(key, of, options)
	if err != nil {
		return r, err
	}
	switch held := l.holder(ctx, key); {
	case held == nil, r.token != nil && *r.token == held.hold.Token:
	case r.joins(held):
	case held.hold.Kind.Joins:
		return r, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: this context shares it already: TryUpgrade the lock that it carries, or release that first", ErrDeadlock)}
	default:
		return r, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: this context holds it already: work under the lock that it carries (FromContext), or release that first", ErrDeadlock)}
	}
	l.heed(ctx, &r)
	return r, nil
}

// configure makes the request for a key with the options of a call.
func (l *Locker) configure(key string, of *kind, options []AcquireOption) (request, error) {
	r := request{settings: &l.options.acquire, key: key, kind: of, line: behindAll}
	if len(options) > 0 {
		own := *r.settings
		own.names = false // a name that all acquires have does no harm to a token
		if err := apply(options, func(option AcquireOption) { option.acquire(&own) }); err != nil {
			return r, err
		}
		r.settings = &own
	}
	if of == exclusive && r.fair && r.token == nil { // its token may hold the key already
		r.kind = fair
	}
	if len(options) > 0 {
		if err := cmp.Or(r.check(), r.checkPriority(), l.checkLease(r.ttl)); err != nil {
			return r, err
		}
		r.ttl = protocol.RoundUp(r.ttl)
	}
	if err := l.options.checkKey(key); err != nil {
		return r, err
	}
	switch {
	case l.options.detects:
		return r, l.options.checkNames(key, "those who look for deadlocks")
	case r.kind.HeedsLine:
		return r, l.options.checkNames(key, "locks that take turns")
	case r.kind.Joins:
		return r, l.options.checkNames(key, "shared locks")
	}
	return r, nil
}

// try asks for the lock once, at any of its kind's slots. With an error it returns the failed attempt, or
// nil if there was none. See [Locker.newLock] for waits.
func (l *Locker) try(ctx context.Context, r request, waits bool) (*lease, error) {
	if r.acquisition != nil {
		r.acquisition.tries++
	}
	if r.kind.try != nil {
		return r.kind.try(ctx, r, waits)
	}
	return l.tryOne(ctx, r, waits)
}

// tryOne is an attempt with a token of its own.
func (l *Locker) tryOne(ctx context.Context, r request, waits bool) (*lease, error) {
	if l.closed() {
		return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: ErrClosed}
	}
	if ctx.Err() != nil {
		return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: fault.EndOf(ctx)}
	}
	if l.options.fences && !l.met.Load() {
		lock, err := l.newLock(ctx, r, waits)
		if err != nil {
			return nil, err
		}
		lock.meet()
		if lock, err = l.launch(ctx, r.visit, lock); err != nil {
			return lock, err
		}
		if op := &lock.hold.Acquire; !l.board.ClocksAgree() { // the others may outvote wrong clocks
			op.AwaitAll(ctx, op.Patience())
		}
		l.met.Store(true)
	}
	if !waits && r.shares() {
		return l.share(ctx, r)
	}
	if r.token != nil {
		if lock, err := l.reserve(ctx, r, waits); err != nil {
			return lock, err
		}
	}
	lock, err := l.newLock(ctx, r, waits)
	if err != nil {
		return nil, err
	}
	lock.hold.Acquire.Propose()
	return l.launch(ctx, r.visit, lock)
}

// shares reports whether a try without waiting has the same request as others of its Locker at the same
// time.
func (r *request) shares() bool {
	switch {
	case r.token != nil || r.kind.joins():
		return false
	case r.kind.pool != nil:
		return r.line.Most == len(r.kind.pool.all)
	}
	return !r.kind.HeedsLine || r.kind == fair && r.line == behindAll
}

// newLock allocates an attempt and the hold that may follow, in few pieces of memory. An attempt of a waiter
// also asks for the holder's time left.
func (l *Locker) newLock(ctx context.Context, r request, waits bool) (*lease, error) {
	if l.options.fences && l.board.Microseconds() >= protocol.MaxFence {
		return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: fmt.Errorf("%w: by most nodes' clocks it is later than the year 2255: fix them", ErrFence)}
	}
	lock := &lease{locker: l, parent: ctx, acquisition: r.acquisition, slots: r.kind.slots}
	if !r.endsWithCaller {
		lock.parent = context.WithoutCancel(ctx)
	}
	kind, h := r.kind.Kind, &lock.hold
	h.Keeper, h.MaxHold, h.Line, h.Ticket, h.Bound = (*keeper)(lock), r.maxHold, r.line, r.ticket, r.bound
	if r.renews {
		h.Renew(r.ttl)
	}
	op := &h.Acquire
	op.Seen, op.Since = r.seen.Token, r.seen.Since
	if r.token == nil {
		h.Init(l.board, kind, r.key, l.board.Random.Token(r.owner), r.ttl)
		op.Prepare(h, kind.Acquire, r.ttl)
	} else {
		if l.board.Spent.Has(*r.token, l.clock.Now()) {
			return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: fmt.Errorf("%w: this token was released less than one TTL ago: take a new one", ErrReleased)}
		}
		h.Own = true
		h.Init(l.board, kind, r.key, *r.token, r.ttl)
		op.Prepare(h, kind.Adopt(), r.ttl)
	}
	if waits || h.Own {
		op.Waits, op.Full = waits, make(chan struct{})
	}
	op.Encode(&h.Memory)
	op.Reserve(&h.Release)
	return lock, nil
}

// meet makes the acquire a [protocol.Meet], which only reads the nodes' clocks.
func (l *lease) meet() {
	op := &l.hold.Acquire
	op.Op, op.Cmds = protocol.Meet, []driver.Command{protocol.AskTime}
	op.Full = make(chan struct{})
}

// launch asks all nodes for the lock and awaits the decision.
func (l *Locker) launch(ctx context.Context, v *visit, lock *lease) (*lease, error) {
	op := &lock.hold.Acquire
	if !op.AskAll() {
		return nil, fate(op)
	}
	if op.Queued() {
		v.end()
	}
	return lock, l.await(ctx, lock)
}

// await waits until an attempt is over, and returns the reason of a failure.
func (l *Locker) await(ctx context.Context, lock *lease) error {
	h, rounds := &lock.hold, 0
	h.Acquire.Await(ctx, l.closing)
	op, err := h.Conclude(ctx, &rounds)
	if lock.acquisition != nil {
		lock.acquisition.rounds += rounds
	}
	if err == nil {
		err = fate(op)
	}
	switch {
	case op.Verdict == kernel.Split:
		return l.cut(ctx, err)
	case taken(err) && h.Own && op == &h.Acquire:
		op.AwaitMore(ctx) // the late answers tell a holder from a contender
		return l.cut(ctx, failed(op))
	case err != nil && h.Own:
		op.Dismiss()
	}
	return err
}
