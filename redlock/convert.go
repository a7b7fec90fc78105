package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Downgrade makes the writer a reader, without a gap: no other writer comes in between. The hold is
// shared from the moment of the call. The Lock is over, its context ends with the cause
// [ErrReleased], and the SharedLock goes on with its lease, its fence, its renewal and its bound of
// [WithMaxHold]. The nodes prolong the lease to the TTL of the acquire.
//
// With an error there may be a SharedLock as well: then the hold is shared, and its lease was not
// prolonged, because too few nodes have agreed ([ErrNoQuorum]), others have the key at too many
// ([ErrLost]: it is lost at the end of its lease), or ctx has ended. Release it in any case. Without a SharedLock nothing has changed: the error matches [ErrLost], [ErrReleased] or
// [ErrClosed] if the lock was over, the context's error if ctx had ended, or [ErrNode] if too many
// nodes may not run scripts. A view (see [WithReentry]) cannot be downgraded: that is an [OptionError].
func (l *Lock) Downgrade(ctx context.Context) (*SharedLock, error) {
	told := l.converts(KindShared)
	reader, err := l.downgrade(ctx, told)
	ends(told, reader, err)
	return reader, err
}

// downgrade is Downgrade.
func (l *Lock) downgrade(ctx context.Context, told *acquisition) (*SharedLock, error) {
	a := &l.attempt
	if err := l.locker.options.checkNames(a.Key, "shared locks"); err != nil {
		return nil, err
	}
	switch {
	case l.view != nil:
		return nil, &OptionError{"Reentry", fmt.Sprintf("this is a view of the lock on %q: downgrade the lock itself, which ends its views", a.Key)}
	case ctx.Err() != nil:
		return nil, &fault.StateError{Op: "downgrade", Key: a.Key, Why: fault.EndOf(ctx)}
	case !l.locker.board.RunsScripts():
		return nil, &fault.StateError{Op: "downgrade", Key: a.Key, Why: fmt.Errorf("%w for shared locks: too many nodes may not run scripts: allow +eval +evalsha", ErrNode)}
	}
	r, err := l.turn(told)
	if err != nil {
		return nil, err
	}
	op := &r.acquire
	if op.AskAll() {
		l.locker.lines.Call(a.Key)
		op.Await(ctx)
		if op.HasCarried() {
			a.Pass()
		}
		a.Clear() // where nothing came of it
	}
	r.attempt.Mu.Lock()
	defer r.attempt.Mu.Unlock()
	reader := any(r.public).(*SharedLock)
	switch {
	case op.Outcome == quorum.Carried:
		return reader, nil
	case op.Outcome == quorum.Undecided:
		return reader, &fault.StateError{Op: "downgrade", Key: a.Key, Why: ErrClosed}
	case op.Outcome == quorum.Dropped:
		return reader, fmt.Errorf("%w: %w", failure(op, op.FailureReason()), fault.EndOf(ctx))
	case r.ended != nil:
		return reader, failure(op, r.ended)
	}
	return reader, failure(op, notProlonged(op))
}

// turn ends the hold as a writer, and begins it as a reader with another token. Its acquire is the
// operation that is to turn the one into the other.
func (l *Lock) turn(told *acquisition) (*lease, error) {
	r, a := newShared(), &l.attempt
	r.locker, r.parent, r.maxHold, r.told = l.locker, l.parent, l.maxHold, told
	if told != nil {
		r.parent = told.ctx
	}
	ttl := l.acquire.Lease
	r.attempt.Init(a.Board, protocol.Shared, a.Key, a.Board.Random.Token(protocol.Owner(a.Token)), ttl)
	r.attempt.Loud, r.attempt.Longest = true, max(ttl, a.LongestLease())

	now := l.observe()
	if l.ended != nil {
		defer a.Mu.Unlock()
		return nil, &fault.StateError{Op: "downgrade", Key: a.Key, Why: l.ended}
	}
	r.until, r.ends, r.fence = l.until, l.ends, l.fence
	ttl = max(MinTTL, min(ttl, l.ends.Sub(now).Truncate(time.Millisecond)))
	if !l.locker.holds.add(r) {
		defer a.Mu.Unlock()
		return nil, &fault.StateError{Op: "downgrade", Key: a.Key, Why: ErrClosed}
	}
	l.given = true
	l.end(WhyConverted, now)
	a.Mu.Unlock()
	l.locker.holds.remove(l.lease)
	l.spend(WhyConverted)
	a.Convert(&r.attempt)

	r.attempt.Mu.Lock()
	defer r.attempt.Mu.Unlock()
	if told != nil {
		told.holds(r, now)
	}
	if l.renewal != nil {
		r.renewal = &renewal{lock: r, options: l.renewal.options}
		r.renewal.begin(now)
	}
	op := &r.acquire
	op.Owner, op.Decided, op.Beside = r, prolong, a
	op.Prepare(&r.attempt, protocol.Downgrade, ttl)
	op.Ends, op.Old = r.until, l.acquire.Token
	return r, nil
}

// TryUpgrade makes the reader the writer, without a gap, if it is the only one. The SharedLock is
// over then, its context ends with the cause [ErrReleased], and the Lock has a lease of the TTL of
// the acquire, a fence of its own, the renewal, and the bound of [WithMaxHold].
//
// With an error the lock stays shared, with the lease that it had. The error matches [ErrTaken] if
// there are other readers: it does not wait for them, for two that waited would wait for each
// other. It matches [ErrContended] if another upgrade of the lock is under way, or if no quorum
// has confirmed within a node time-out that it is shared again after one that failed: try
// again soon. The others are those of [Lock.Extend] and, with fences, [ErrFence].
func (l *SharedLock) TryUpgrade(ctx context.Context) (*Lock, error) {
	told := l.converts(KindExclusive)
	writer, err := l.upgrade(ctx, told)
	ends(told, writer, err) //nolint:contextcheck // what is told of a conversion has the context of the acquire
	return writer, err
}

// upgrade is TryUpgrade.
func (l *SharedLock) upgrade(ctx context.Context, told *acquisition) (*Lock, error) {
	a := &l.attempt
	if ctx.Err() != nil {
		return nil, &fault.StateError{Op: "upgrade", Key: a.Key, Why: fault.EndOf(ctx)}
	}
	if l.view != nil {
		return nil, &OptionError{"Reentry", fmt.Sprintf("this is a view of the lock on %q: upgrade the lock itself, which ends its views", a.Key)}
	}
	w, err := l.raised(ctx, told)
	if err != nil {
		return nil, err
	}
	if w.acquire.AskAll() {
		var bound clockdrift.Instant
		err = l.locker.await(ctx, w, &bound)
	} else {
		err = &fault.StateError{Op: "upgrade", Key: a.Key, Why: ErrClosed}
	}
	a.Mu.Lock()
	l.raises = false
	a.Mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, twin := range l.spend(WhyConverted) {
		twin.attempt.Clear()
	}
	a.Pass()
	a.Clear()
	return any(w.public).(*Lock), nil
}

// raised makes the hold as a writer that is to go on with that of the reader. Its acquire is the
// operation that is to turn the one into the other.
func (l *SharedLock) raised(ctx context.Context, told *acquisition) (*lease, error) {
	a := &l.attempt
	l.observe()
	ended, busy := l.ended, l.raises
	l.raises = true
	a.Mu.Unlock()
	switch {
	case busy:
		return nil, errUpgrading(a.Key)
	case ended != nil:
		return nil, l.stays(&fault.StateError{Op: "upgrade", Key: a.Key, Why: ended})
	case !l.alone(ctx):
		return nil, l.stays(errUpgrading(a.Key))
	}
	ttl := l.acquire.Lease
	w := exclusive.lease()
	w.locker, w.parent, w.maxHold, w.from, w.told = l.locker, l.parent, l.maxHold, l.lease, told
	if told != nil {
		w.parent = told.ctx
	}
	if l.renewal != nil {
		w.renewal = &renewal{lock: w, options: l.renewal.options}
	}
	w.attempt.Init(a.Board, protocol.Exclusive, a.Key, a.Board.Random.Token(protocol.Owner(a.Token)), ttl)
	w.attempt.Convert(a)
	w.attempt.Longest = max(ttl, a.LongestLease())
	l.observe()
	ended = l.ended
	a.Mu.Unlock()
	if ended != nil {
		return nil, l.stays(&fault.StateError{Op: "upgrade", Key: a.Key, Why: ended})
	}
	op := &w.acquire
	op.Owner, op.Decided = w, begin
	op.Prepare(&w.attempt, protocol.Upgrade, ttl)
	op.Old, op.Beside = l.acquire.Token, a
	op.Encode(nil)
	op.Propose()
	return w, nil
}

// alone waits for up to one node time-out until a quorum of the nodes has none of the hold's other
// tokens any more: they may be about to be made the reader's.
func (l *SharedLock) alone(ctx context.Context) bool {
	pause, end := max(l.locker.board.Trip(), minTrip), l.locker.clock.Now().Add(l.locker.options.timeout(l.acquire.Lease))
	for _, other := range l.attempt.Others() {
		for !other.Gone() {
			if l.locker.clock.Now() >= end || !l.locker.rest(ctx, pause) {
				return false
			}
		}
	}
	return true
}

func errUpgrading(key string) error {
	return &fault.StateError{Op: "upgrade", Key: key, Why: fmt.Errorf("%w: another upgrade of this lock is under way, or nodes are still made shared again after one that failed: try again soon", ErrContended)}
}

// stays notes that no upgrade is under way.
func (l *SharedLock) stays(why error) error {
	l.attempt.Mu.Lock()
	l.raises = false
	l.attempt.Mu.Unlock()
	return why
}

// goesOn ends the hold of a reader that goes on as the writer w, unless it has ended before.
// w.attempt.Mu is held.
func (l *lease) goesOn(w *lease, now clockdrift.Instant) bool {
	l.attempt.Mu.Lock()
	defer l.attempt.Mu.Unlock()
	l.check(now)
	if l.ended != nil {
		return false
	}
	l.given = true
	l.end(WhyConverted, now)
	l.locker.holds.remove(l)
	w.attempt.Converted(&l.attempt)
	return true
}
