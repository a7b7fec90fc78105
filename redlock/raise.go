package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// maxRaises bounds the proposals after the first. Each is above all numbers that a quorum had
// accepted a moment before, so it fails only if another attempt proposed in between.
const maxRaises = 4

// raise finds a greater fence for an attempt that has the key at a quorum, but whose number is
// not greater than those that too many nodes have accepted: of a client whose clock reads more, or
// from before a node forgot. It costs two round trips, inside the lease.
func (l *Locker) raise(ctx context.Context, lock *lease) error {
	if lock.attempt.Kind.Level != nil {
		return l.level(ctx, lock)
	}
	var err error
	again := true
	for i := 0; again && i < maxRaises; i++ {
		if again, err = l.raiseOnce(ctx, lock); err == nil {
			return nil
		}
	}
	lock.attempt.Clear()
	return err
}

// raiseOnce reads the counters and proposes a greater number. Again: another attempt proposed in
// between.
func (l *Locker) raiseOnce(ctx context.Context, lock *lease) (again bool, err error) {
	a, lease := &lock.attempt, lock.acquire.Lease
	if lock.told != nil {
		lock.told.rounds++
	}
	look := &quorum.Operation{Owner: lock}
	look.Prepare(a, protocol.Counters, lease)
	look.Encode(nil)
	look.AskAll() // it sets nothing, and works even while the Locker is closed
	if err := l.result(ctx, look); err != nil {
		return false, err
	}
	p := max(l.board.Propose(), look.Greatest()+1)
	if p >= protocol.MaxFence {
		return false, &fault.StateError{Op: "acquire", Key: a.Key, Why: fmt.Errorf("%w: a counter of the set %q has come to its end: delete the set at all nodes while nobody works under its keys", ErrFence, look.Fence.Set)}
	}
	op := &quorum.Operation{Owner: lock, Decided: raised}
	op.Prepare(a, a.Kind.Raise, lease)
	op.Carry(p)
	op.AskAll()
	err = l.result(ctx, op)
	return op.Outcome == quorum.Outbid, err
}

// raised takes the deciding vote of a raise. The lease counts from the acquire's first round, which
// may have set the key. attempt.Mu is held.
func raised(op *quorum.Operation, now clockdrift.Instant) {
	if op.Outcome == quorum.Carried {
		lock := op.Owner.(*lease)
		op.Start = lock.acquire.First()
		lock.hold(op, now)
	}
}

// Fence returns the number that orders the holders of the key, or 0 without [WithFences].
// Give it to the store that the lock protects, which refuses a number below the greatest that
// it has seen (package fence helps): then late writes of a former holder do no harm there.
func (l *lease) Fence() int64 {
	l.attempt.Mu.Lock()
	defer l.attempt.Mu.Unlock()
	return l.fence
}
