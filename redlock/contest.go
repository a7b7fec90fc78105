package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// A token of the user's own must not be deleted: a retry may have it, anywhere. Its votes stay, and a split
// of such votes ends when the votes of all but the leader have expired. Each try of the leader prolongs its
// votes. The others sound the nodes, and ask for a lease only if a quorum would grant it. While another
// token has a vote they let that token go first, for it may be the leader's: a try at the moment at which
// votes expire may split the votes again. Where no token has a vote, they reserve the key for a few round
// trips, and ask for a lease only with a quorum of reservations: otherwise two callers that heard of the
// same release would split the votes.

// lose ends a try with a token of the user's own, when others have the votes. Still keeps the token from
// asking.
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

// approach asks for no lease until a quorum would grant it, and returns the attempt that may ask now.
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

// sound asks whether a quorum would grant an acquire with a token of the user's own. It writes nothing.
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

// reserve takes a free key for some round trips, and prolongs nothing.
func (l *Locker) reserve(ctx context.Context, lock *lease, trip time.Duration) error {
	op := &lock.hold.Acquire
	op.Op, op.TTL, op.Full = lock.hold.Kind.Reserve(), protocol.Milliseconds(8*trip+time.Millisecond), make(chan struct{})
	op.Encode(&lock.hold.Memory)
	op.Propose()
	switch err := l.ask(ctx, op); {
	case op.Verdict == kernel.Carried, op.Verdict == kernel.Outranked:
		lock.hold.LetGo() // distant nodes need not reserve the key for a try that is over
		return nil
	case taken(err):
		return l.lose(ctx, lock, lock.hold.StayStill)
	default:
		op.Dismiss()
		return err
	}
}
