package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Downgrade makes the writer a reader, without a gap: no other writer comes in between. The Lock is
// over, with the cause [ErrReleased], and the SharedLock goes on with its lease, which the nodes
// prolong to the TTL of the acquire, its fence, renewal and bound of [WithMaxHold].
//
// With an error there may be a SharedLock as well, whose lease was not prolonged, because too few
// nodes have agreed ([ErrNoQuorum]), others have the key at too many ([ErrLost]), or ctx has ended:
// release it in any case. Without one nothing has changed. Then the error matches [ErrLost],
// [ErrReleased] or [ErrClosed] if the lock was over, the context's error, [ErrNode] if too many
// nodes lack what readers need, or [ErrOption] for a view ([WithReentry]), several keys and permits.
func (l *Lock) Downgrade(ctx context.Context) (*SharedLock, error) {
	acq := l.converts(KindShared)
	reader, err := l.downgrade(ctx, acq)
	ends(acq, reader, err)
	return reader, err
}

// downgrade is Downgrade.
func (l *Lock) downgrade(ctx context.Context, acq *acquisition) (*SharedLock, error) {
	h := &l.hold
	switch l.kind() {
	case KindKeys:
		return nil, &OptionError{"Downgrade", fmt.Sprintf("readers share one key, and this lock has %d: release it, and AcquireShared the keys one by one", len(h.Many.Names))}
	case KindPermit:
		return nil, &OptionError{"Downgrade", fmt.Sprintf("readers do not share permits, and this lock has some of %q: release it, and AcquireShared a key of its own", h.Key)}
	}
	if err := l.locker.options.checkNames(h.Key, "shared locks"); err != nil {
		return nil, err
	}
	switch {
	case l.view != nil:
		return nil, &OptionError{"Reentry", fmt.Sprintf("this is a view of the lock on %q: downgrade the lock itself, which ends its views", h.Key)}
	case ctx.Err() != nil:
		return nil, &fault.StateError{Op: "downgrade", Key: h.Key, Why: fault.EndOf(ctx)}
	}
	if err := l.locker.board.Refuses(protocol.Downgrade); err != nil {
		return nil, &fault.StateError{Op: "downgrade", Key: h.Key, Why: err}
	}
	lock := l.goesOnAs(newShared(), acq)
	reader, r := any(lock.public).(*SharedLock), &lock.hold
	if err := h.Downgrade(r); err != nil {
		return nil, &fault.StateError{Op: "downgrade", Key: h.Key, Why: err}
	}
	l.spend(kernel.Converted)
	op := &r.Acquire
	if !op.AskAll() {
		return reader, fate(op)
	}
	l.locker.lines.Call(h.Key)
	op.Await(ctx, nil)
	if op.Verdict == kernel.Carried {
		h.LetGo()
	}
	h.Clear() // where nothing came of it
	return reader, fate(op)
}

// goesOnAs makes to the lease with which that of l is to go on.
func (l *lease) goesOnAs(to *lease, acq *acquisition) *lease {
	parent := l.hold.Parent
	if acq != nil {
		parent = acq.ctx
	}
	to.locker, to.acquisition = l.locker, acq
	to.hold.Keeper, to.hold.Parent, to.hold.MaxHold = (*keeper)(to), parent, l.hold.MaxHold
	return to
}

// TryUpgrade makes the reader the writer, without a gap, if it is the only one. The SharedLock is
// over then, with the cause [ErrReleased], and the Lock has a lease of the TTL of the acquire, a
// fence of its own, the renewal, and the bound of [WithMaxHold].
//
// With an error the lock stays shared, with the lease that it had. It matches [ErrTaken] if there
// are other readers, for which it does not wait, because two that did would wait for each other;
// and [ErrContended] if another upgrade is under way, or one that failed is still being undone: try
// again soon. The others are those of Extend and, with fences, [ErrFence].
func (l *SharedLock) TryUpgrade(ctx context.Context) (*Lock, error) {
	acq := l.converts(KindExclusive)
	writer, err := l.upgrade(ctx, acq)
	ends(acq, writer, err)
	return writer, err
}

// upgrade is TryUpgrade.
func (l *SharedLock) upgrade(ctx context.Context, acq *acquisition) (*Lock, error) {
	h := &l.hold
	if ctx.Err() != nil {
		return nil, &fault.StateError{Op: "upgrade", Key: h.Key, Why: fault.EndOf(ctx)}
	}
	if l.view != nil {
		return nil, &OptionError{"Reentry", fmt.Sprintf("this is a view of the lock on %q: upgrade the lock itself, which ends its views", h.Key)}
	}
	first, ended := h.Upgrades(true)
	if !first {
		return nil, errUpgrading(h.Key)
	}
	defer func() { _, _ = h.Upgrades(false) }()
	if ended == nil && !l.alone(ctx) {
		return nil, errUpgrading(h.Key)
	}
	w := l.goesOnAs(exclusive.lease(), acq)
	if ended == nil {
		ended = h.Upgrade(&w.hold)
	}
	if ended != nil {
		return nil, &fault.StateError{Op: "upgrade", Key: h.Key, Why: ended}
	}
	if !w.hold.Acquire.AskAll() {
		return nil, fate(&w.hold.Acquire)
	}
	var bound clockdrift.Instant
	if err := l.locker.await(ctx, w, &bound); err != nil {
		return nil, err
	}
	for _, twin := range l.spend(kernel.Converted) {
		twin.hold.Clear()
	}
	h.LetGo()
	h.Clear()
	return any(w.public).(*Lock), nil
}

// alone waits for up to one node time-out until a quorum of the nodes has none of the hold's other
// tokens any more: they may be about to be made the reader's.
func (l *SharedLock) alone(ctx context.Context) bool {
	pause, end := max(l.locker.board.Trip(), quorum.MinTrip), l.locker.clock.Now().Add(l.locker.options.timeout(l.hold.Acquire.Lease))
	for _, other := range l.hold.Others() {
		for !other.Gone() {
			if l.locker.clock.Now() >= end || !l.locker.board.Rest(ctx, pause) {
				return false
			}
		}
	}
	return true
}

func errUpgrading(key string) error {
	return &fault.StateError{Op: "upgrade", Key: key, Why: fmt.Errorf("%w: another upgrade of this lock is under way, or nodes are still made shared again after one that failed: try again soon", ErrContended)}
}
