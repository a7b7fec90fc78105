package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Downgrade makes the writer a reader, without a gap: no other writer comes in between. The lock is over, with
// the cause [ErrReleased]. The returned lock goes on with its lease, which the nodes prolong to the TTL of the
// acquire, its fence, renewal and bound of [WithMaxHold]. Where too few nodes agree to prolong the lease, or
// ctx ends meanwhile, the reader has the rest of it: see Until.
//
// The error matches [ErrLost], [ErrReleased] or [ErrClosed] if the lock was over, and ErrLost also if others
// have the key at too many nodes: then the lock is given back. With the context's error, [ErrNode], or
// [ErrOption] for readers, several keys and permits, nothing has changed.
func (l *Lock) Downgrade(ctx context.Context) (*Lock, error) {
	acq := l.converts(kindShared)
	reader, err := l.downgrade(ctx, acq)
	if err != nil && reader != nil { // nobody gets it
		acq.forgets()
		reader.drop()
		reader = nil
	}
	ends(acq, reader, err)
	return reader, err
}

// downgrade is Downgrade. It returns both a lock and an error if others have the key.
func (l *Lock) downgrade(ctx context.Context, acq *acquisition) (*Lock, error) {
	h := &l.hold
	switch l.kind() {
	case kindShared:
		return nil, &OptionError{"Downgrade", fmt.Sprintf("the lock on %q is shared already", h.Key)}
	case kindKeys:
		return nil, &OptionError{"Downgrade", fmt.Sprintf("readers share one key, and this lock has %d: release it, and AcquireShared the keys one by one", len(h.Many.Names))}
	case kindPermit:
		return nil, &OptionError{"Downgrade", fmt.Sprintf("readers do not share permits, and this lock has some of %q: release it, and AcquireShared a key of its own", h.Key)}
	}
	if err := l.locker.options.checkNames(h.Key, "shared locks"); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, &fault.StateError{Op: "downgrade", Key: h.Key, Why: fault.EndOf(ctx)}
	}
	if err := l.locker.board.Refuses(protocol.Downgrade); err != nil {
		return nil, &fault.StateError{Op: "downgrade", Key: h.Key, Why: err}
	}
	lock := l.goesOnAs(acq)
	r := &lock.hold
	if err := h.Downgrade(r); err != nil {
		return nil, &fault.StateError{Op: "downgrade", Key: h.Key, Why: err}
	}
	l.spend(kernel.Converted)
	op := &r.Acquire
	if !op.AskAll() {
		return lock.handOut(), nil // Close ends the lock
	}
	l.locker.lines.Call(h.Key)
	op.Await(ctx, nil)
	if op.Verdict == kernel.Carried {
		h.LetGo()
	}
	h.Clear() // where the conversion came to nothing
	if err := fate(op); errors.Is(err, ErrLost) {
		return lock.handOut(), err
	}
	return lock.handOut(), nil
}

// goesOnAs makes the lease with which l's is to go on.
func (l *lease) goesOnAs(acq *acquisition) *lease {
	to := &lease{locker: l.locker, parent: l.parent, acquisition: acq}
	if acq != nil {
		to.parent = acq.ctx
	}
	to.hold.Keeper, to.hold.MaxHold = (*keeper)(to), l.hold.MaxHold
	return to
}

// TryUpgrade makes the only reader the writer, without a gap. The lock is over then, with the cause
// [ErrReleased]. The returned lock has a lease of the TTL of the acquire, a fence of its own, the renewal, and
// the bound of [WithMaxHold].
//
// With an error the lock stays shared, with its lease as before. The error matches [ErrTaken] if there are
// other readers: two readers that waited would wait for each other; [ErrContended] if another upgrade is under
// way, or is being undone; [ErrOption] for a lock that is not shared. Others are those of Extend, and [ErrFence].
func (l *Lock) TryUpgrade(ctx context.Context) (*Lock, error) {
	acq := l.converts(kindExclusive)
	writer, err := l.upgrade(ctx, acq)
	ends(acq, writer, err)
	return writer, err
}

// upgrade is TryUpgrade.
func (l *Lock) upgrade(ctx context.Context, acq *acquisition) (*Lock, error) {
	h := &l.hold
	if !l.Shared() {
		return nil, &OptionError{"TryUpgrade", fmt.Sprintf("the lock on %q is not shared: nobody else has it", h.Key)}
	}
	if ctx.Err() != nil {
		return nil, &fault.StateError{Op: "upgrade", Key: h.Key, Why: fault.EndOf(ctx)}
	}
	first, ended := h.Upgrades(true)
	if !first {
		return nil, errUpgrading(h.Key)
	}
	defer func() { _, _ = h.Upgrades(false) }()
	if ended == nil && !l.alone(ctx) {
		return nil, errUpgrading(h.Key)
	}
	w := l.goesOnAs(acq)
	if ended == nil {
		ended = h.Upgrade(&w.hold)
	}
	if ended != nil {
		return nil, &fault.StateError{Op: "upgrade", Key: h.Key, Why: ended}
	}
	if !w.hold.Acquire.AskAll() {
		return nil, fate(&w.hold.Acquire)
	}
	if err := l.locker.await(ctx, w); err != nil {
		return nil, err
	}
	for _, twin := range l.spend(kernel.Converted) {
		twin.hold.Clear()
	}
	h.LetGo()
	h.Clear()
	return w.handOut(), nil
}

// alone waits for up to one node time-out until a quorum of the nodes is free of the hold's other tokens: a
// command may be about to make them the reader's.
func (l *Lock) alone(ctx context.Context) bool {
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
