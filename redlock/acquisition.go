package redlock

import (
	"cmp"
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// An acquisition is what the hooks are told of one acquire, and of the hold that follows. There is
// none if nobody wants to be told.
type acquisition struct {
	hooks *Hooks
	clock *clockdrift.Clock
	ctx   context.Context //nolint:containedctx // all that is told comes with it
	call  AcquireStart
	began clockdrift.Instant

	// Of the goroutine that acquires.
	how    How
	tries  int
	rounds int // further ones, for a fence

	held *lease // nil: no hold has begun
	// Guarded by held.attempt.Mu.
	since clockdrift.Instant
	told  bool   // the end of the acquire was
	later func() // tells the end of the hold, once the end of the acquire was told
}

// starts tells the start of an acquire, and returns the context that it goes on with. The
// acquisition is nil if nobody wants to be told.
func (l *Locker) starts(ctx context.Context, call AcquireStart) (context.Context, *acquisition) {
	if !l.watched {
		return ctx, nil
	}
	a := &acquisition{hooks: &l.hooks, clock: l.clock, call: call, began: l.clock.Now()}
	a.ctx = l.hooks.AcquireStart(ctx, call)
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

// extends tells the end of an extension.
func (a *acquisition) extends(e ExtendEnd) { a.hooks.ExtendEnd(a.ctx, e) }

// releases tells the end of a release.
func (a *acquisition) releases(r ReleaseEnd) { a.hooks.ReleaseEnd(a.ctx, r) }

// watchedBy returns the options of an acquire that the hooks are told of.
func (o *acquireOptions) watchedBy(a *acquisition) *acquireOptions {
	own := *o
	own.told = a
	return &own
}

// holds notes that the hold begins. attempt.Mu is held.
func (a *acquisition) holds(l *lease, now clockdrift.Instant) { a.held, a.since = l, now }

// ends tells the end of an acquire, if anybody wants to be told, and that of the hold if it is over
// already.
func ends[L public](a *acquisition, lock L, err error) {
	if a == nil {
		return
	}
	e := AcquireEnd{
		AcquireStart: a.call, Err: err, Waited: a.clock.Now().Sub(a.began),
		Tries: a.tries, How: a.how, FenceRounds: a.rounds,
	}
	var none L
	if lock != none {
		e.Lock, e.Fence = lock, lock.Fence()
	}
	a.hooks.AcquireEnd(a.ctx, e)
	if l := a.held; l != nil {
		l.attempt.Mu.Lock()
		a.told = true
		l.attempt.Then(a.later)
		l.attempt.Unlock()
	}
}

// over tells the end of the hold, as soon as attempt.Mu is free and the end of the acquire was told.
// attempt.Mu is held.
func (a *acquisition) over(why Why, now clockdrift.Instant) {
	l := a.held
	if l == nil {
		return
	}
	h := HoldEnd{
		Key: l.attempt.Key, Kind: l.kind(), Fence: l.fence, Held: min(now, l.until).Sub(a.since), Left: max(0, l.until.Sub(now)), Why: why,
	}
	if why == WhyLost || why == WhyClosed {
		h.Err = l.cause
	}
	tell := func() { a.hooks.HoldEnd(a.ctx, h) }
	if !a.told {
		a.later = tell
		return
	}
	l.attempt.Then(tell)
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

// sent tells of a batch.
func (l *Locker) sent(s node.Sent) {
	l.hooks.Batch(Batch{
		Node: s.Node.Name(), Requests: len(s.Parts), Commands: s.Commands, Queued: s.Queued, Latency: s.Took, Err: s.Err, Attempt: s.Attempt,
		contexts: func(most int) (all []context.Context) {
			var seen []*acquisition
			for _, p := range s.Parts {
				op, ok := p.Of.(*node.Request).Question.(*quorum.Operation)
				if !ok || len(all) >= most {
					continue
				}
				if l, ok := op.Owner.(*lease); ok && l.told != nil && !slices.Contains(seen, l.told) {
					seen, all = append(seen, l.told), append(all, l.told.ctx)
				}
			}
			return all
		},
	})
}

// join makes one of all hooks, whose functions about locks are not nil. It reports whether there
// are any of those, and of those about batches.
func join(all []Hooks) (h Hooks, ofLocks, ofBatches bool) {
	for _, one := range all {
		ofLocks = ofLocks || one.AcquireStart != nil || one.AcquireEnd != nil || one.HoldEnd != nil || one.ReleaseEnd != nil || one.ExtendEnd != nil
		ofBatches = ofBatches || one.Batch != nil
	}
	h.AcquireEnd = each(all, func(h *Hooks) func(context.Context, AcquireEnd) { return h.AcquireEnd })
	h.HoldEnd = each(all, func(h *Hooks) func(context.Context, HoldEnd) { return h.HoldEnd })
	h.ReleaseEnd = each(all, func(h *Hooks) func(context.Context, ReleaseEnd) { return h.ReleaseEnd })
	h.ExtendEnd = each(all, func(h *Hooks) func(context.Context, ExtendEnd) { return h.ExtendEnd })
	h.AcquireStart = func(ctx context.Context, call AcquireStart) context.Context {
		for _, one := range all {
			if one.AcquireStart != nil {
				ctx = cmp.Or(one.AcquireStart(ctx, call), ctx) //nolint:fatcontext // each descends from the one before
			}
		}
		return ctx
	}
	h.Batch = func(b Batch) {
		for _, one := range all {
			if one.Batch != nil {
				one.Batch(b)
			}
		}
	}
	h.Node = func(e Event) {
		for _, one := range all {
			if one.Node != nil {
				one.Node(e)
			}
		}
	}
	return h, ofLocks, ofBatches
}

// each returns a function that calls one of each hooks, where it is not nil.
func each[T any](all []Hooks, of func(*Hooks) func(context.Context, T)) func(context.Context, T) {
	return func(ctx context.Context, told T) {
		for i := range all {
			if tell := of(&all[i]); tell != nil {
				tell(ctx, told)
			}
		}
	}
}
