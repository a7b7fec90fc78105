package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// insist repeats a try while the votes are split, until it has the key, a quorum says that somebody
// else has it, or one node time-out has passed. Silent nodes may hide whether a token has a quorum:
// it is taken for one if it is there all that time, because a contender would have released it; but
// see [waiting.Sighting.Stays]. The caller is in the room, which insist leaves behind the first try.
func (l *Locker) insist(ctx context.Context, r request) (*lease, error) {
	var bound, ends clockdrift.Instant
	var seen waiting.Sighting
	timeout, looked := l.options.timeout(r.ttl), false
	for i, try := 0, l.tryFirst; ; i, try = i+1, l.try {
		lock, err := try(ctx, r, false, &bound)
		if !errors.Is(err, ErrContended) || lock == nil || ctx.Err() != nil || l.closed() {
			return lock, err
		}
		now := l.clock.Now()
		if ends == 0 {
			ends = now.Add(timeout)
		}
		late := now >= ends
		switch found := lock.hold.Last().Found(); {
		case seen.Stays(&found, now, timeout):
			return lock, heldBy(lock)
		case late && (looked || !seen.Stayed(now, timeout)):
			return lock, err
		case late: // one more look, which waits for no silent node
			r.seen, looked = waiting.Sighting{}, true
		default:
			r.seen = seen
		}
		// After about this time the leader has the key, or has released its votes as well.
		pause := 2 * lock.hold.Last().RoundTrip()
		if !late {
			pause = min(pause+l.board.Jitter(pause<<min(i, 8)), ends.Sub(now))
		}
		if !l.board.Rest(ctx, pause) {
			return lock, l.cut(ctx, err)
		}
	}
}

// heldBy is the failure of a try to which a token has stayed in the way.
func heldBy(lock *lease) error {
	return failure(lock.hold.Last(), ErrTaken)
}

// Nobody may delete a token of the user's own: a retry may have it, anywhere. So its votes stay,
// and a split of such votes ends when those have ended that do not lead. Each try of the one that
// leads prolongs its votes; the others sound the nodes, and ask for a lease only if a quorum would
// grant it. While another one has a vote they let it go first, for it may be the one that leads:
// a try at the moment at which the others' votes end may split these as well. Where nobody has,
// they reserve the key for a few round trips, and ask for a lease only with a quorum of that: or
// two who were told of the same release would split the votes.

// lose ends a try with a token of the user's own that somebody else has the votes for. Still lets
// it be still.
func (l *Locker) lose(ctx context.Context, lock *lease, still func()) error {
	op := &lock.hold.Acquire
	op.AwaitMore(ctx) // the late answers tell a holder from a contender
	err := failed(op)
	v := op.View()
	if _, leads := v.Rank(); !leads && errors.Is(err, ErrContended) {
		still()
	}
	return l.cut(ctx, err)
}

// approach asks for no lease until it may have it: it returns the attempt that may ask for one now.
func (l *Locker) approach(ctx context.Context, lock *lease, another func() (*lease, error)) (*lease, error) {
	if err := l.sound(ctx, lock); err != nil {
		return lock, err
	}
	trip := lock.hold.Acquire.RoundTrip()
	lock, err := another()
	if err != nil {
		return nil, err
	}
	if err := l.reserve(ctx, lock, trip); err != nil {
		return lock, err
	}
	return another()
}

// sound asks whether a quorum would grant an acquire with a token of the user's own. It writes
// nothing.
func (l *Locker) sound(ctx context.Context, lock *lease) error {
	op := &lock.hold.Acquire
	op.Prepare(&lock.hold, lock.hold.Kind.Sound(), op.Lease)
	op.Full = make(chan struct{})
	op.Encode(&lock.hold.Memory)
	if err := l.ask(ctx, op); err != nil {
		op.Dismiss()
		return err
	}
	op.AwaitMore(ctx)
	switch vacant, alone := op.Vacant(); {
	case vacant && alone:
		return nil
	case vacant:
		lock.hold.Yield()
		return l.cut(ctx, failed(op))
	}
	return l.lose(ctx, lock, lock.hold.StayStill)
}

// ask asks all nodes, and waits for the decision.
func (l *Locker) ask(ctx context.Context, op *quorum.Operation) error {
	if op.AskAll() {
		op.Await(ctx, l.closing)
	}
	return fate(op)
}

// fate says what has come of an operation that is decided, or was let in by nobody; nil: a quorum
// has agreed.
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

// reserve takes the key where it is free, for some round trips, and prolongs nothing.
func (l *Locker) reserve(ctx context.Context, lock *lease, trip time.Duration) error {
	op := &lock.hold.Acquire
	op.Op, op.TTL, op.Full = lock.hold.Kind.Reserve(), protocol.Milliseconds(8*trip+time.Millisecond), make(chan struct{})
	op.Encode(&lock.hold.Memory)
	op.Propose()
	switch err := l.ask(ctx, op); {
	case op.Verdict == kernel.Carried, op.Verdict == kernel.Outranked:
		lock.hold.LetGo() // nodes that are far away need not reserve the key for a try that is over
		return nil
	case taken(err):
		return l.lose(ctx, lock, lock.hold.StayStill)
	default:
		op.Dismiss()
		return err
	}
}
