package redlock

import (
	"cmp"
	"context"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// An acquisition is what the hooks are told of one acquire, and of the hold that follows. There is
// none if nobody wants to be told.
type acquisition struct {
	locker *Locker
	ctx    context.Context //nolint:containedctx // all that is told comes with it
	call   AcquireStart
	began  clockdrift.Instant

	// Of the goroutine that acquires.
	how    How
	tries  int
	rounds int // further ones, for a fence

	held *lease // nil: no hold has begun
	// Guarded by held.attempt.Mu.
	since clockdrift.Instant
	told  bool   // the end of the acquire was
	later func() // lets the end of the hold be told, once the end of the acquire was told
}

// starts tells the start of an acquire, and returns the context that it goes on with. The
// acquisition is nil if nobody wants to be told.
func (l *Locker) starts(ctx context.Context, call AcquireStart) (context.Context, *acquisition) {
	if !l.watched {
		return ctx, nil
	}
	a := &acquisition{locker: l, call: call, began: l.clock.Now(), ctx: ctx}
	if l.hooks.AcquireStart != nil {
		a.ctx = l.hooks.AcquireStart(ctx, call)
	}
	return a.ctx, a
}

// converts tells the start of a conversion of l, whose context counts.
func (l *lease) converts(to LockKind) *acquisition {
	_, a := l.locker.starts(l.parent, AcquireStart{Key: l.Key(), Kind: to, Converts: true})
	if a != nil {
		a.how = HowConverted
	}
	return a
}

// extends tells the end of an extension: of an Extend at once, and of a renewal in turn.
func (a *acquisition) extends(e ExtendEnd) {
	switch tell := a.locker.hooks.ExtendEnd; {
	case tell == nil:
	case e.Renewal:
		a.locker.teller.put(hookExtendEnd, mostReports, func() { tell(a.ctx, e) })
	default:
		tell(a.ctx, e)
	}
}

// releases tells the end of a release.
func (a *acquisition) releases(r ReleaseEnd) {
	if tell := a.locker.hooks.ReleaseEnd; tell != nil {
		tell(a.ctx, r)
	}
}

// watchedBy returns the options of an acquire that the hooks are told of.
func (o *acquireOptions) watchedBy(a *acquisition) *acquireOptions {
	own := *o
	own.told = a
	return &own
}

// holds notes that the hold begins. attempt.Mu is held.
func (a *acquisition) holds(l *lease, now clockdrift.Instant) { a.held, a.since = l, now }

// ends tells the end of an acquire, if anybody wants to be told, and that of the hold if it is over
// already. A panic of a hook releases the lock, which nobody gets.
func ends[L public](a *acquisition, lock L, err error) {
	if a == nil {
		return
	}
	e := AcquireEnd{
		AcquireStart: a.call, Err: err, Waited: a.locker.clock.Now().Sub(a.began),
		Tries: a.tries, How: a.how, FenceRounds: a.rounds,
	}
	var none L
	if lock != none {
		e.Lock, e.Fence = lock, lock.Fence()
	}
	returned := false
	defer func() {
		a.settle()
		if !returned && lock != none { // a panic, or runtime.Goexit
			_ = lock.Release(context.WithoutCancel(a.ctx)) // there is nobody to tell
		}
	}()
	if a.locker.hooks.AcquireEnd != nil {
		a.locker.hooks.AcquireEnd(a.ctx, e)
	}
	returned = true
}

// settle lets the end of the hold be told from now on.
func (a *acquisition) settle() {
	if a.held == nil {
		return
	}
	a.held.attempt.Mu.Lock()
	defer a.held.attempt.Mu.Unlock()
	a.told = true
	if a.later != nil {
		a.later()
	}
}

// over lets the end of the hold be told, as soon as the end of the acquire was. attempt.Mu is held.
func (a *acquisition) over(why Why, now clockdrift.Instant) {
	l, end := a.held, a.locker.hooks.HoldEnd
	if l == nil || end == nil {
		return
	}
	h := HoldEnd{
		Key: l.attempt.Key, Kind: l.kind(), Fence: l.fence, Held: min(now, l.until).Sub(a.since), Left: max(0, l.until.Sub(now)), Why: why,
	}
	if why == WhyLost || why == WhyClosed {
		h.Err = l.cause
	}
	a.later = func() { a.locker.teller.put(hookHoldEnd, mostNews, func() { end(a.ctx, h) }) }
	if a.told {
		a.later()
	}
}

// kind is the kind of the lock.
func (l *lease) kind() LockKind {
	switch {
	case l.places != nil:
		return KindPermit
	case l.attempt.Many != nil:
		return KindKeys
	case l.attempt.Kind.Joins:
		return KindShared
	}
	return KindExclusive
}

// extended is what came of an extension; nil: no node was asked. attempt.Mu is held.
func (l *lease) extended(op *quorum.Operation, err error) ExtendEnd {
	e := ExtendEnd{Key: l.attempt.Key, Kind: l.kind(), Nodes: len(l.locker.board.Nodes), Err: err}
	if op != nil {
		t := op.Tally()
		e.Granted, e.Need, e.Latency = t.Agreed, t.Need, op.Over.Sub(op.Asked)
		e.votes = func() []Vote {
			l.attempt.Mu.Lock()
			defer l.attempt.Mu.Unlock()
			return votes(op.Tally())
		}
	}
	return e
}

// sent tells of a batch. Its requests are used again.
func (l *Locker) sent(s node.Sent) {
	b := Batch{Node: s.Node.Name(), Requests: len(s.Parts), Commands: s.Commands, Queued: s.Queued, Latency: s.Took, Err: s.Err, Attempt: s.Attempt}
	if l.watched {
		b.about = make([]*acquisition, 0, len(s.Parts))
	}
	for _, p := range s.Parts {
		if op, ok := p.Of.(*node.Request).Question.(*quorum.Operation); ok {
			if l, ok := op.Owner.(*lease); ok && l.told != nil {
				b.about = append(b.about, l.told)
			}
		}
	}
	l.teller.put(hookBatch, mostReports, func() { l.hooks.Batch(b) })
}

// emit tells of an event.
func (l *Locker) emit(e Event) {
	if l.hooks.Node != nil {
		l.teller.put(hookNode, mostNews, func() { l.hooks.Node(e) })
	}
}

// The names of hooks that are told in turn.
const (
	hookHoldEnd   = "HoldEnd"
	hookExtendEnd = "ExtendEnd"
	hookRenewal   = "OnRenewal"
	hookBatch     = "Batch"
	hookNode      = "Node"
)

// join makes one of all hooks. A function is nil where none is set. It reports whether any of them is
// about locks.
func join(all []Hooks) (h Hooks, ofLocks bool) {
	h.AcquireEnd = each(all, func(h *Hooks) func(context.Context, AcquireEnd) { return h.AcquireEnd })
	h.HoldEnd = each(all, func(h *Hooks) func(context.Context, HoldEnd) { return h.HoldEnd })
	h.ReleaseEnd = each(all, func(h *Hooks) func(context.Context, ReleaseEnd) { return h.ReleaseEnd })
	h.ExtendEnd = each(all, func(h *Hooks) func(context.Context, ExtendEnd) { return h.ExtendEnd })
	var starts []func(context.Context, AcquireStart) context.Context
	var batches []func(Batch)
	var events []func(Event)
	for _, one := range all {
		if one.AcquireStart != nil {
			starts = append(starts, one.AcquireStart)
		}
		if one.Batch != nil {
			batches = append(batches, one.Batch)
		}
		if one.Node != nil {
			events = append(events, one.Node)
		}
	}
	if len(starts) > 0 {
		h.AcquireStart = func(ctx context.Context, call AcquireStart) context.Context {
			for _, start := range starts {
				ctx = cmp.Or(start(ctx, call), ctx) //nolint:fatcontext // each descends from the one before
			}
			return ctx
		}
	}
	if len(batches) > 0 {
		h.Batch = func(b Batch) { inTurn(len(batches), func(i int) { batches[i](b) }) }
	}
	if len(events) > 0 {
		h.Node = func(e Event) { inTurn(len(events), func(i int) { events[i](e) }) }
	}
	return h, h.AcquireStart != nil || h.AcquireEnd != nil || h.HoldEnd != nil || h.ReleaseEnd != nil || h.ExtendEnd != nil
}

// each returns a function that calls one of each hooks, where it is not nil; nil: all are.
func each[T any](all []Hooks, of func(*Hooks) func(context.Context, T)) func(context.Context, T) {
	var tells []func(context.Context, T)
	for i := range all {
		if tell := of(&all[i]); tell != nil {
			tells = append(tells, tell)
		}
	}
	if len(tells) == 0 {
		return nil
	}
	return func(ctx context.Context, told T) { inTurn(len(tells), func(i int) { tells[i](ctx, told) }) }
}

// inTurn makes so many calls, each of them also behind one that panics.
func inTurn(calls int, call func(int)) { callFrom(0, calls, call) }

func callFrom(i, calls int, call func(int)) {
	if i < calls {
		defer callFrom(i+1, calls, call)
		call(i)
	}
}
