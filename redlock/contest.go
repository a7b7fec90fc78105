package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// insist repeats a try while the votes are split, as the [acquire.Dispute] says. An acquire that may wait
// for longer than some rounds of a split tries once: a shorter wait would have the worse chance of the two.
// The caller is in the room; insist leaves the room after the first try.
func (l *Locker) insist(ctx context.Context, r request, waits bool) (*lease, error) {
	r.bound = new(clockdrift.Instant)
	var dispute acquire.Dispute
	for i := 0; ; i++ {
		lock, err := l.try(ctx, r, waits && r.several())
		switch {
		case r.visit != nil:
			r.visit.end()
		case i == 0:
			l.room.Leave()
		}
		if waits && r.several() && err != nil && lock != nil {
			lock.hold.Last().Dismiss()
		}
		if waits || !errors.Is(err, ErrContended) || lock == nil || ctx.Err() != nil || l.closed() {
			return lock, err
		}
		last := lock.hold.Last()
		found := last.Found()
		held, again, pause := dispute.Next(&found, l.options.timeout(r.ttl), last.RoundTrip(), l.board.Jitter, l.clock.Now())
		switch r.seen = dispute.Seen; {
		case held:
			return lock, failure(last, ErrTaken)
		case !again:
			return lock, err
		case !l.board.Rest(ctx, pause):
			return lock, l.cut(ctx, err)
		}
	}
}

// reserve takes the key for a token of the user's own for a few round trips: the key expires, for a retry may
// have such a token anywhere, and nobody may delete it. With the reservation of a quorum the caller asks for
// the lease. So a split of such tokens ends when their reservations do, not their leases.
func (l *Locker) reserve(ctx context.Context, r request, waits bool) (*lease, error) {
	lock, err := l.newLock(ctx, r, waits)
	if err != nil {
		return nil, err
	}
	op := &lock.hold.Acquire
	op.Op, op.Fence = lock.hold.Kind.Reserve(), protocol.Fence{}
	op.TTL = protocol.Milliseconds(min(r.ttl, protocol.RoundUp(max(8*op.RoundTrip(), l.options.timeout(r.ttl)/8))))
	op.Encode(&lock.hold.Memory)
	if lock, err = l.launch(ctx, r.visit, lock); err == nil {
		lock.hold.LetGo() // a distant node need not reserve the key any more
	}
	return lock, err
}

// fate is the outcome of a decided operation, or of an operation that was not let in; nil: a quorum has
// agreed.
func fate(op *quorum.Operation) error {
	switch op.Verdict {
	case kernel.Carried:
		return nil
	case kernel.Undecided:
		return &fault.StateError{Op: op.Op.Name, Key: op.Hold.Key, Why: ErrClosed}
	case kernel.Outranked:
		return failure(op, ErrFence)
	case kernel.Dropped:
		return fmt.Errorf("%w: %w", failure(op, op.Why()), op.Interrupt)
	}
	return failure(op, op.Why())
}
