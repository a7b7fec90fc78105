package redlock

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// Acquire takes the lock on key, and waits while somebody else has it: until ctx ends, or for as
// long as [WithMaxWait] allows.
//
// The error matches [ErrTaken], [ErrContended], [ErrNoQuorum] (see [WithMaxOutage]), [ErrNode]
// besides if some nodes are unfit, [ErrExpired], [ErrReleased] (the token of [WithToken] is spent),
// [ErrDeadlock], [ErrFence], [ErrBusy], [ErrClosed] or [ErrOption]; where ctx ended, also the
// context's error and cause. A [*QuorumError] in it has every node's answer.
func (l *Locker) Acquire(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: KindExclusive, Waits: true}, func(ctx context.Context) (request, error) {
		return l.prepare(ctx, key, exclusive, options)
	}, asLock)
}

func asLock(h handle) *Lock { return &Lock{h} }

// obtain is the call that takes a lock of any kind: what is to be taken, and how, says prepare; a
// view of a lock that ctx carries is made by view. The hooks are told.
func obtain[L public](ctx context.Context, l *Locker, call AcquireStart, prepare func(context.Context) (request, error), view func(handle) L) (lock L, err error) {
	ctx, acq := l.starts(ctx, call)
	r, err := prepare(ctx)
	switch {
	case err != nil:
	case r.within != nil:
		if acq != nil {
			acq.how = PathReentered
		}
		lock, err = enter(ctx, r, view)
	default:
		r.key, r.acquisition = call.Key, acq
		var held *lease
		if held, err = l.take(ctx, r, call.Waits); err == nil {
			lock = any(held.public).(L)
		}
	}
	ends(acq, lock, err)
	return lock, err
}

// take takes a lock of any kind, and waits for it if it may.
func (l *Locker) take(ctx context.Context, r request, waits bool) (*lease, error) {
	if !l.admits() {
		return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: fmt.Errorf("%w: %d are under way in this Locker: ask for fewer, or allow more with WithMaxAcquires", ErrBusy, l.options.most)}
	}
	defer l.acquires.Add(-1)
	var began clockdrift.Instant
	patience := time.Duration(math.MaxInt64)
	if waits = waits && r.maxWait > 0; waits {
		began, patience = l.clock.Now(), r.maxWait
		if l.behind(r) {
			return l.wait(l.waiter(ctx, r, began), nil)
		}
	}
	switch crowded, err := l.room.Enter(ctx, l.options.timeout(r.ttl), patience); {
	case err != nil:
		return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: err}
	case crowded:
		r.visit = &visit{&l.room}
	}
	if !waits {
		return l.insist(ctx, r)
	}
	lock, err := l.first(ctx, r)
	if err == nil || lock == nil {
		return lock, err
	}
	l.learnClock(lock.hold.Last().Found().Clock)
	w := l.waiter(ctx, r, began)
	if w.Over(err) {
		return nil, w.GiveUp(err)
	}
	return l.wait(w, lock)
}

// admits counts an acquire that begins, and reports false where as many are under way as may be. What it refuses is
// never counted: callers that try again at once would keep all others out.
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

// first is the first try of an acquire that may wait. Where it may wait for no more than some
// rounds of a split, it settles that as an acquire does that may not: else it would have the worse
// chance of the two.
func (l *Locker) first(ctx context.Context, r request) (*lease, error) {
	if r.maxWait < 2*l.options.timeout(r.ttl) {
		return l.insist(ctx, r)
	}
	var bound clockdrift.Instant
	lock, err := l.tryFirst(ctx, r, r.several(), &bound)
	if err != nil && lock != nil && r.several() {
		lock.hold.Last().Dismiss()
	}
	return lock, err
}

// tryFirst is the first try of an acquire, whose caller is in the room.
func (l *Locker) tryFirst(ctx context.Context, r request, waits bool, bound *clockdrift.Instant) (*lease, error) {
	if r.visit != nil {
		defer r.visit.end()
	} else {
		defer l.room.Leave()
	}
	return l.try(ctx, r, waits, bound)
}

// A visit is a caller's in the room of its Locker, where that is crowded. It ends where its try waits
// behind others of its key, or keys that many ask for would take the room of all others.
type visit struct{ *waiting.Room }

func (v *visit) end() {
	if v != nil && v.Room != nil {
		v.Leave()
		v.Room = nil
	}
}

// TryAcquire takes the lock on key if it is free, and does not wait for a holder. Its errors are
// those of [Locker.Acquire]. Callers of one Locker that try for one key at the same time share a
// try.
//
// Contenders that ask for a free key at the same moment may each get some of the votes and none a
// quorum. The call settles that among the nodes that answer, for about one node time-out: as a rule
// one of them gets the key within a few round trips, and the others fail with [ErrTaken]. If nobody
// is known to have the key by then, the error is [ErrContended]: a caller that skips a job on
// ErrTaken must not skip it on ErrContended, or no host may do it.
//
// ErrTaken says that a quorum of the nodes names one token; or that a token of this library's
// making was there for a whole node time-out, and may have a quorum with silent nodes, while none
// of the call's own may have had one: or others might be told that this call has the key.
func (l *Locker) TryAcquire(ctx context.Context, key string, options ...AcquireOption) (*Lock, error) {
	return obtain(ctx, l, AcquireStart{Key: key, Kind: KindExclusive}, func(ctx context.Context) (request, error) {
		return l.prepare(ctx, key, exclusive, options)
	}, asLock)
}

// A request is what one call asks for. It goes from step to step by value, and each adds what it
// finds.
type request struct {
	*settings
	key         string // as errors call it
	kind        *kind
	line        *protocol.Line   // what it says to those in line
	held        []string         // of one who heeds those in line: what its context carries, in order
	ticket      *quorum.Ticket   // of one who waits; nil: it does not
	seen        waiting.Sighting // by the tries before
	within      *lease           // the hold that it enters; nil: none
	acquisition *acquisition     // whom the hooks are told of; nil: nobody wants to be told
	visit       *visit           // in the room of first tries; nil: that is not crowded
}

// prepare makes the request for a key, and refuses one that cannot succeed.
func (l *Locker) prepare(ctx context.Context, key string, of *kind, options []AcquireOption) (request, error) {
	r, err := l.configure(key, of, options)
	if err != nil {
		return r, err
	}
	switch held := l.holder(ctx, key); {
	case held == nil, r.token != nil && *r.token == held.hold.Token:
	case r.reenters && r.token == nil && r.covered(held):
		r.within = held
	case r.joins(held):
	case held.hold.Kind.Joins:
		return r, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: this context shares it already: TryUpgrade the lock that it carries, or release that first", ErrDeadlock)}
	default:
		return r, &fault.StateError{Op: "acquire", Key: key, Why: fmt.Errorf("%w: this context holds it already: work under the lock that it carries (FromContext), acquire it WithReentry, or release that first", ErrDeadlock)}
	}
	l.heed(ctx, &r)
	return r, nil
}

// configure makes the request for a key with the options of one call.
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
	if of == exclusive && r.fair && r.token == nil { // or it may hold the key already
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

// try asks for the lock once, in any of the places that its kind has. With an error it returns the
// failed attempt, or nil if there was none. See [Locker.newLock] for waits, and
// [quorum.Hold.Conclude] for the bound.
func (l *Locker) try(ctx context.Context, r request, waits bool, bound *clockdrift.Instant) (*lease, error) {
	if r.acquisition != nil {
		r.acquisition.tries++
	}
	if r.kind.try != nil {
		return r.kind.try(ctx, r, waits, bound)
	}
	return l.tryOne(ctx, r, waits, bound)
}

// tryOne is one attempt, with a token of its own.
func (l *Locker) tryOne(ctx context.Context, r request, waits bool, bound *clockdrift.Instant) (*lease, error) {
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
		if lock, err = l.launch(ctx, r.visit, lock, bound); err != nil {
			return lock, err
		}
		if op := &lock.hold.Acquire; !l.board.ClocksAgree() { // the others may outvote wrong clocks
			op.AwaitAll(ctx, op.Patience())
		}
		l.met.Store(true)
	}
	if r.kind == exclusive && l.known.has(l.options.prefix, r.key, l.clock.Now()) && l.nameOf(r) != "" {
		r.kind = inLine
	}
	if !waits && r.shares() {
		return l.share(ctx, r, bound)
	}
	lock, err := l.newLock(ctx, r, waits)
	if err == nil && lock.hold.Own && lock.hold.IsStill() {
		lock, err = l.approach(ctx, lock, func() (*lease, error) { return l.newLock(ctx, r, waits) })
	}
	if err != nil {
		return lock, err
	}
	lock.hold.Acquire.Propose()
	lock, err = l.launch(ctx, r.visit, lock, bound)
	l.learnWaiters(lock)
	return lock, err
}

// shares reports whether the try of one who does not wait says as much to others of its Locker that
// try at the same time.
func (r *request) shares() bool {
	switch {
	case r.token != nil || r.kind.joins():
		return false
	case r.kind.pool != nil:
		return r.line.Most == len(r.kind.pool.all)
	}
	return !r.kind.HeedsLine || (r.kind == inLine || r.kind == fair) && r.line == behindAll
}

// newLock allocates an attempt and the hold that may follow, in few pieces of memory. An attempt
// that waits also asks how long the key is held.
func (l *Locker) newLock(ctx context.Context, r request, waits bool) (*lease, error) {
	if l.options.fences && l.board.Microseconds() >= protocol.MaxFence {
		return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: fmt.Errorf("%w: by most nodes' clocks it is later than the year 2255: mend them", ErrFence)}
	}
	lock := r.kind.lease()
	lock.locker, lock.acquisition = l, r.acquisition
	kind, h := r.kind.Kind, &lock.hold
	h.Keeper, h.Parent, h.MaxHold, h.Line, h.Ticket = (*keeper)(lock), ctx, r.maxHold, r.line, r.ticket
	if r.renews {
		h.Renew(r.ttl)
	}
	op := &h.Acquire
	op.Seen, op.Since = r.seen.Token, r.seen.Since
	if r.token == nil {
		h.Init(l.board, kind, r.key, l.board.Random.Token(r.owner), r.ttl)
		op.Prepare(h, kind.Acquire, r.ttl)
		if waits {
			op.Waits, op.Full = true, make(chan struct{})
		}
	} else {
		if l.board.Spent.Has(*r.token, l.clock.Now()) {
			return nil, &fault.StateError{Op: "acquire", Key: r.key, Why: fmt.Errorf("%w: this token was released less than one TTL ago: take a new one", ErrReleased)}
		}
		h.Own = true
		h.Init(l.board, kind, r.key, *r.token, r.ttl)
		op.Prepare(h, kind.Adopt, r.ttl)
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
func (l *Locker) launch(ctx context.Context, v *visit, lock *lease, bound *clockdrift.Instant) (*lease, error) {
	op := &lock.hold.Acquire
	if !op.AskAll() {
		return nil, fate(op)
	}
	if op.Queued() {
		v.end()
	}
	return lock, l.await(ctx, lock, bound)
}

// await waits until an attempt is over, and returns the reason of a failure.
func (l *Locker) await(ctx context.Context, lock *lease, bound *clockdrift.Instant) error {
	h, rounds := &lock.hold, 0
	h.Acquire.Await(ctx, l.closing)
	op, err := h.Conclude(ctx, bound, &rounds)
	if lock.acquisition != nil {
		lock.acquisition.rounds += rounds
	}
	if err == nil {
		err = fate(op)
	}
	switch {
	case op.Verdict == kernel.Split:
		return l.cut(ctx, err)
	case !h.Own || op != &h.Acquire:
	case taken(err):
		return l.lose(ctx, lock, h.BeStill)
	case err != nil:
		op.Dismiss()
	}
	return err
}
