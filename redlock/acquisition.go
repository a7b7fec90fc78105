package redlock

import (
	"cmp"
	"context"
	"sync"

	"github.com/quorumlock/quorumlock/clockdrift"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
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
	how    string
	tries  int
	rounds int // further ones, for a fence

	mu    sync.Mutex // guards all below
	held  *lease     // nil: no hold has begun
	since clockdrift.Instant
	ended bool   // the end of the acquire was told
	later func() // lets the end of the hold be told, once the end of the acquire was told
}

// starts tells the start of an acquire, and returns the context that it goes on with. The
// acquisition is nil if nobody wants to be told.
func (l *Locker) starts(ctx context.Context, call AcquireStart) (context.Context, *acquisition) {
	if !l.watched {
		return ctx, nil
	}
	a := &acquisition{locker: l, call: call, how: pathDirect, began: l.clock.Now(), ctx: ctx}
	if l.hooks.AcquireStart != nil {
		a.ctx = l.hooks.AcquireStart(ctx, call)
	}
	return a.ctx, a
}

// converts tells the start of a conversion of l, whose context counts.
func (l *lease) converts(to string) *acquisition {
	_, a := l.locker.starts(l.parent, AcquireStart{Key: l.hold.Key, Kind: to, Converts: true})
	if a != nil {
		a.how = pathConverted
	}
	return a
}

// extends tells the end of an extension: of an Extend at once, and of a renewal in turn.
func (a *acquisition) extends(e ExtendEnd) {
	switch tell := a.locker.hooks.ExtendEnd; {
	case tell == nil:
	case e.Renewal:
		a.locker.teller.put(mostReports, func() { tell(a.ctx, e) })
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

// holds notes that the hold begins.
func (a *acquisition) holds(l *lease, now clockdrift.Instant) {
	a.mu.Lock()
	a.held, a.since = l, now
	a.mu.Unlock()
}

// forgets makes the hold one of which nothing is told: the call has failed, and gives the lock back.
func (a *acquisition) forgets() {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.held, a.later = nil, nil
	a.mu.Unlock()
}

// ends tells the end of an acquire, if anybody wants to be told, and that of the hold if it is over
// already. A panic of a hook releases the lock, which nobody gets.
func ends(a *acquisition, lock *Lock, err error) {
	if a == nil {
		return
	}
	e := AcquireEnd{
		AcquireStart: a.call, Err: err, Waited: a.locker.clock.Now().Sub(a.began),
		Tries: a.tries, Path: a.how, FenceRounds: a.rounds,
	}
	if lock != nil {
		e.Lock, e.Fence = lock, lock.Fence()
	}
	returned := false
	defer func() {
		a.settle()
		if !returned && lock != nil { // a panic, or runtime.Goexit
			_ = lock.Release() // there is nobody to tell
		}
	}()
	if a.locker.hooks.AcquireEnd != nil {
		a.locker.hooks.AcquireEnd(a.ctx, e)
	}
	returned = true
}

// settle lets the end of the hold be told from now on.
func (a *acquisition) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.later != nil {
		a.later()
	}
}

// over lets the end of the hold be told, as soon as the end of the acquire was.
func (a *acquisition) over(e quorum.End, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, end := a.held, a.locker.hooks.HoldEnd
	if l == nil || end == nil {
		return
	}
	h := HoldEnd{
		Key: l.hold.Key, Kind: l.kind(), Fence: e.Fence, Lasted: min(e.Now, e.Until).Sub(a.since), Left: max(0, e.Until.Sub(e.Now)), Reason: endOf(e.Why),
	}
	if e.Why == kernel.Released && l.gone.Load() {
		h.Reason = endForgotten
	}
	if h.Reason == endLost || h.Reason == endClosed {
		h.Err = cause
	}
	a.later = func() { a.locker.teller.put(mostNews, func() { end(a.ctx, h) }) }
	if a.ended {
		a.later()
	}
}

// kind is the kind of the lock.
func (l *lease) kind() string {
	switch {
	case l.slots != nil:
		return kindPermit
	case l.hold.Many != nil:
		return kindKeys
	case l.hold.Kind.Joins:
		return kindShared
	}
	return kindExclusive
}

// extended is what came of an extension; nil: no node was asked.
func (l *lease) extended(op *quorum.Operation, err error) ExtendEnd {
	e := ExtendEnd{Key: l.hold.Key, Kind: l.kind(), Nodes: len(l.locker.board.Nodes), Until: l.until(), Err: err}
	if op != nil {
		t := op.Tally()
		e.Granted, e.Need, e.Latency = t.Agreed, t.Need, op.Over.Sub(op.Asked)
		e.votes = func() []Vote { return votes(op.Tally()) }
	}
	return e
}

// sent tells of a batch. Its requests are used again.
func (l *Locker) sent(s node.Sent) {
	b := NodeBatch{Node: s.Node.Name(), Requests: len(s.Parts), Commands: s.Commands, Queued: s.Queued, Latency: s.Took, Err: s.Err, Attempt: s.Attempt}
	if l.watched {
		b.about = make([]*acquisition, 0, len(s.Parts))
	}
	for _, p := range s.Parts {
		if op, ok := p.Of.(*node.Request).Question.(*quorum.Operation); ok && op.Op.Does != kernel.Frees {
			if l, ok := op.Hold.Keeper.(*keeper); ok && l.acquisition != nil {
				b.about = append(b.about, l.acquisition)
			}
		}
	}
	l.teller.put(mostReports, func() { l.hooks.Batch(b) })
}

// emit tells of an event.
func (l *Locker) emit(e Event) {
	if l.hooks.Node != nil {
		l.teller.put(mostNews, func() { l.hooks.Node(e) })
	}
}

// join makes one of all hooks. A function is nil where none is set. It reports whether any of them
// is about locks.
func join(all []Hooks) (h Hooks, ofLocks bool) {
	h.AcquireEnd = each(all, func(h *Hooks) func(context.Context, AcquireEnd) { return h.AcquireEnd })
	h.HoldEnd = each(all, func(h *Hooks) func(context.Context, HoldEnd) { return h.HoldEnd })
	h.ReleaseEnd = each(all, func(h *Hooks) func(context.Context, ReleaseEnd) { return h.ReleaseEnd })
	h.ExtendEnd = each(all, func(h *Hooks) func(context.Context, ExtendEnd) { return h.ExtendEnd })
	var starts []func(context.Context, AcquireStart) context.Context
	var batches []func(NodeBatch)
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
		h.Batch = func(b NodeBatch) { callEach(len(batches), func(i int) { batches[i](b) }) }
	}
	if len(events) > 0 {
		h.Node = func(e Event) { callEach(len(events), func(i int) { events[i](e) }) }
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
	return func(ctx context.Context, told T) { callEach(len(tells), func(i int) { tells[i](ctx, told) }) }
}

// callEach makes so many calls, each of them also behind one that panics.
func callEach(calls int, call func(int)) { callFrom(0, calls, call) }

func callFrom(i, calls int, call func(int)) {
	if i < calls {
		defer callFrom(i+1, calls, call)
		call(i)
	}
}
