package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// A Lock is a key that this process holds, from [Locker.Acquire] until its lease ends, it is
// released, or the Locker is closed. All methods are safe for concurrent use.
type Lock struct {
	locker  *Locker
	attempt quorum.Attempt
	parent  context.Context //nolint:containedctx // the lock's context descends from it
	acquire quorum.Operation
	release quorum.Operation
	memory  protocol.Memory // of acquire
	renewal *renewal        // nil: none
	maxHold time.Duration

	// Guarded by attempt.Mu.
	until  clockdrift.Instant // the lease's end, drift taken off
	ends   clockdrift.Instant // the longest hold's end, which no lease passes: see [WithMaxHold]
	fence  int64
	ended  error           // why the hold is over: ErrLost, ErrReleased or ErrClosed
	cause  error           // the same with details, for ctx
	ctx    context.Context //nolint:containedctx // handed out; nil until then
	cancel context.CancelCauseFunc
	timer  *time.Timer // ends ctx at until
	given  bool        // Release was called
	excess bool        // an extension that does not count may have set a lease beyond until
}

// Key returns the key, as it was given to Acquire.
func (l *Lock) Key() string { return l.attempt.Key }

// Token returns the random value of the key on the nodes. Whoever knows it can release the
// lock: keep it out of logs.
func (l *Lock) Token() string { return l.attempt.Token }

// String shows the key and what is left of the lease. It does not show the token.
func (l *Lock) String() string {
	if left := l.left(); left > 0 {
		return fmt.Sprintf("lock %q, valid for %v", l.Key(), left.Round(time.Millisecond))
	}
	return fmt.Sprintf("lock %q, over", l.Key())
}

// GoString is String, so that no format shows the token.
func (l *Lock) GoString() string { return l.String() }

// Until returns the deadline, clock drift taken off, as a wall-clock time. For a lock that is
// over it is in the past, or now. To test the lease, call [Lock.Valid]: the wall clock may be
// stepped.
func (l *Lock) Until() time.Time {
	left := l.left()
	return time.Now().Add(left).Round(0) // without the monotonic part, which stops while a machine sleeps
}

// Valid reports whether the lease still runs. Run work that may outlast it under [Lock.Context].
func (l *Lock) Valid() bool { return l.left() > 0 }

// left is the rest of the lease, and at most 0 if the hold is over.
func (l *Lock) left() time.Duration {
	now := l.observe()
	defer l.attempt.Mu.Unlock()
	if l.ended != nil {
		return min(0, l.until.Sub(now))
	}
	return l.until.Sub(now)
}

// observe locks attempt.Mu, which the caller unlocks, and ends the hold if its deadline has passed
// at the returned moment.
func (l *Lock) observe() (now clockdrift.Instant) {
	now = l.locker.clock.Fresh()
	l.attempt.Mu.Lock()
	l.check(now)
	return now
}

// check ends the hold if its deadline has passed. attempt.Mu is held.
func (l *Lock) check(now clockdrift.Instant) {
	if l.ended == nil && now >= l.until {
		l.end(ErrLost)
	}
}

// end ends the hold, unless it has ended before. attempt.Mu is held.
func (l *Lock) end(cause error) {
	if l.ended != nil {
		return
	}
	l.ended, l.cause = cause, cause
	if l.excess && cause == ErrLost { //nolint:errorlint // it is the sentinel itself
		l.attempt.Abandon()
	}
	if cause == ErrLost { //nolint:errorlint // it is the sentinel itself
		l.cause = l.lossCause()
	}
	if l.renewal != nil {
		l.locker.renewals.remove(l.renewal)
	}
	if l.ctx != nil {
		l.timer.Stop()
		l.cancel(l.cause)
	}
}

// lossCause is why the lock was lost. attempt.Mu is held.
func (l *Lock) lossCause() error {
	switch allowance := clockdrift.Allowance(l.attempt.Longest, l.locker.options.drift); {
	case l.renewal != nil && l.renewal.failed != nil:
		return failure(l.renewal.failed, ErrLost)
	case l.until >= l.ends.Add(-allowance-MinTTL):
		return fmt.Errorf("%w: it was held for %v, the longest time that WithMaxHold allows", ErrLost, l.maxHold)
	}
	return ErrLost
}

// Context returns a context that descends from the one given to Acquire, and ends with the
// lease, by a local timer whatever the network does, or just before a release is sent.
// context.Cause then says why: [ErrLost], [ErrReleased] or [ErrClosed]; after failed renewals
// a [*QuorumError] in it has each node's last answer. Give it to all work that the lock protects.
func (l *Lock) Context() context.Context {
	now := l.observe()
	defer l.attempt.Mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(context.WithValue(l.parent, lockKey{}, l))
		if l.ended != nil {
			l.cancel(l.cause)
		} else {
			l.timer = time.AfterFunc(l.until.Sub(now), l.expire)
		}
	}
	return l.ctx
}

type lockKey struct{}

// FromContext returns the lock whose [Lock.Context] ctx is or descends from, the
// innermost if there are several, or nil.
func FromContext(ctx context.Context) *Lock {
	lock, _ := ctx.Value(lockKey{}).(*Lock)
	return lock
}

// holder returns the valid lock of l on key that ctx carries, or nil. Locks may be nested: each
// has the context that it was acquired under.
func (l *Locker) holder(ctx context.Context, key string) *Lock {
	for lock := FromContext(ctx); lock != nil; lock = FromContext(lock.parent) { //nolint:contextcheck // ctx descends from it
		if lock.locker == l && lock.attempt.Key == key && lock.Valid() {
			return lock
		}
	}
	return nil
}

// expire is called by the timer. The lease may have been extended since.
func (l *Lock) expire() {
	now := l.observe()
	defer l.attempt.Mu.Unlock()
	if l.ended == nil {
		l.timer.Reset(l.until.Sub(now))
	}
}

// Votes returns each node's answer to the acquire so far: some arrive after the deciding vote.
func (l *Lock) Votes() []Vote {
	l.attempt.Mu.Lock()
	defer l.attempt.Mu.Unlock()
	return votes(l.last().Tally())
}
