package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// share tries once, or shares the answer of a try of the same key: see [quorum.Flight].
func (l *Locker) share(ctx context.Context, r request) (*lease, error) {
	for {
		f := l.board.Keys.Forming(l.board.KeyName(r.kind.Kind, r.key))
		if f == nil {
			lock, err := l.newLock(ctx, r, false)
			if err != nil {
				return nil, err
			}
			var goes bool
			switch f, goes, err = l.enterFlight(ctx, lock); {
			case err != nil:
				return nil, err
			case goes:
				lock.hold.Acquire.Propose()
				lock, err = l.launch(ctx, r.visit, lock)
				land(f, lock, err, ctx.Err() != nil || l.closed())
				return lock, err
			}
		}
		if err := l.awaitClosed(ctx, "acquire", r.key, f.Over); err != nil {
			return nil, err
		}
		if f.Refused != nil {
			return f.Refused.(*lease), f.Err
		}
	}
}

// enterFlight queues an attempt for its key: alone, or as the leader of the flight f when that leaves.
// If it does not go, the caller is in that flight and needs no attempt.
func (l *Locker) enterFlight(ctx context.Context, lock *lease) (f *quorum.Flight, goes bool, err error) {
	op, keys := &lock.hold.Acquire, &l.board.Keys
	f, ahead, open := keys.EnterFlight(op)
	switch {
	case !open:
		return nil, false, &fault.StateError{Op: "acquire", Key: lock.hold.Key, Why: ErrClosed}
	case ahead == nil:
		return f, f == nil, nil
	}
	err = l.awaitClosed(ctx, "acquire", lock.hold.Key, ahead.Done)
	if err == nil { // else it is still under way, and may write what is read here
		if contest := ahead.Hold.Contest; contest != nil {
			err = l.awaitClosed(ctx, "acquire", lock.hold.Key, contest.Over)
		}
	}
	keys.Depart(op, err == nil)
	return f, err == nil, err
}

// awaitClosed waits, on behalf of an operation of this name, until the channel is closed.
func (l *Locker) awaitClosed(ctx context.Context, what, key string, over <-chan struct{}) error {
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return &fault.StateError{Op: what, Key: key, Why: fault.EndOf(ctx)}
	case <-l.closing:
		return &fault.StateError{Op: what, Key: key, Why: ErrClosed}
	}
}

// land ends a flight, if there is one, with the result of its leader's attempt. After an
// interrupt the others have to ask again.
func land(f *quorum.Flight, lock *lease, err error, interrupted bool) {
	switch {
	case f == nil:
		return
	case err == nil:
		refused := lock.behind()
		f.Refused, f.Err = refused, failed(&refused.hold.Acquire)
	case !interrupted && lock != nil:
		f.Refused, f.Err = lock, err
	}
	close(f.Over)
}

// behind makes the result of an attempt right after l: refused at the nodes that granted l.
func (l *lease) behind() *lease {
	won := l.hold.Last()
	refused := &lease{locker: l.locker}
	refused.hold.Init(l.locker.board, l.hold.Kind, l.hold.Key, "", won.Lease)
	op := &refused.hold.Acquire
	op.Prepare(&refused.hold, l.hold.Kind.Acquire, won.Lease)
	op.Behind(won)
	return refused
}
