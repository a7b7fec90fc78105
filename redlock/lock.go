package redlock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// A Lock is a key that this process holds alone, from [Locker.Acquire] until its lease ends, it
// is released, or the Locker is closed. All methods are safe for concurrent use.
type Lock struct{ handle }

// A kind is a way to hold keys, and what an acquire hands out for it.
type kind struct {
	*protocol.Kind
	lease func() *lease

	slots   *slots // the places of which some are held; nil: the key is the only one
	permits int    // so many places are held as one lock; 0: one, by itself
	// try asks for any of several places, each of which has a kind of its own; nil: it is one.
	try func(ctx context.Context, key string, o *acquireOptions, waits bool, bound *clockdrift.Instant) (*lease, error)
}

var exclusive = &kind{Kind: protocol.Exclusive, lease: func() *lease {
	l := new(struct {
		Lock
		body lease
	})
	return l.init(&l.body, &l.Lock)
}}

// A handle is what a user has of a lease: the hold itself, or a view of it.
type handle struct {
	*lease
	view *view // nil: the hold itself
}

// init makes h the handle of l, in a public lock.
func (h *handle) init(l *lease, public carried) *lease {
	h.lease, l.public = l, public
	return l
}

// over is ErrReleased if h is a view that was released.
func (h *handle) over(what string) error {
	if h.view != nil && h.view.released.Load() {
		return &fault.StateError{Op: what, Key: h.attempt.Key, Why: ErrReleased}
	}
	return nil
}

// Context returns a context that descends from the one given to Acquire, and ends with the
// lease, by a local timer whatever the network does, or just before a release is sent. Its Err and
// Done compare the clock as well, for a timer is late where the process was stopped: what is derived
// from it by [context.WithCancel] waits for the timer, or for somebody who asks this one.
// context.Cause then says why: [ErrLost], [ErrReleased] or [ErrClosed]; after failed renewals
// a [*QuorumError] in it has each node's last answer. Its Deadline is not the lease's, which moves: see
// Until. Give it to all work that the lock protects.
func (h *handle) Context() context.Context {
	if h.view != nil {
		return h.view.ctx
	}
	return h.lease.Context()
}

// Valid reports whether the lease still runs. Run work that may outlast it under [Lock.Context].
func (h *handle) Valid() bool { return h.over("") == nil && h.lease.Valid() }

// Extend prolongs the lease to ttl from now, and never shortens it. A ttl such as
// time.Until(moment) is rounded up to milliseconds, as that of [WithTTL]. Nodes that have lost the
// key get it again. It counts only if a quorum agrees before the current lease ends; an Extend
// that fails before that changes nothing, and may be repeated until then. Leases that it has
// set at some nodes are deleted when the lock is lost, unless the token is the user's own (see
// [WithToken]).
//
// A lease never passes the longest hold of [WithMaxHold]: a longer one is cut to it. If the
// lease already runs to its end, the error is an [OptionError] for "MaxHold".
//
// The error matches [ErrLost] if the lock is lost, or will be because another token has its
// key at too many nodes; [ErrNoQuorum] if too few nodes answered; [ErrReleased], [ErrClosed] or
// [ErrOption]; and the context's error if ctx ended first.
func (h *handle) Extend(ctx context.Context, ttl time.Duration) error {
	if err := h.over("extend"); err != nil {
		return err
	}
	return h.lease.Extend(ctx, ttl)
}

// Release releases the lock. It first ends the lock's context, with the cause [ErrReleased],
// and then deletes the key at all nodes. It waits until a quorum has confirmed that the token
// is gone, for one node time-out at the most, or until ctx ends. The other nodes, and failures
// at a minority, are handled in the background, until they are done or [Locker.Close] ends it.
// Give it a context that has not ended:
//
//	defer lock.Release(context.WithoutCancel(ctx))
//
// The error matches [ErrLost] if the lock was lost before: its lease had ended, or no node had
// its token any more. Then the work may not have been protected to its end. It matches
// [ErrNoQuorum] if too few nodes answered (the key expires by the TTL at the latest);
// [ErrReleased] the second time; [ErrClosed]; and the context's error if ctx ended first. For a
// lost lock it matches [ErrLost] besides.
//
// For a lost lock with a token of the user's own (see [WithToken]) nothing is sent: the key may
// belong to a retry that has the same token.
//
// A view (see [WithReentry]) sends nothing: it only ends its own context.
func (h *handle) Release(ctx context.Context) error {
	if h.view != nil {
		return h.view.release("release", h.lease)
	}
	return h.lease.Release(ctx)
}

// Abandon ends the hold, as Release does, and leaves the key to its TTL: until then nobody else
// gets it. It is for a job that must not run again soon after it has succeeded: take a TTL of
// that length. Nothing is sent; an extension under way may still prolong the key at the nodes.
//
// A token of the user's own (see [WithToken]) is spent for this Locker only: another Locker gets
// the key with it.
//
// The error matches [ErrLost] if the lock was lost before, [ErrReleased] if it was released
// or abandoned before, or [ErrClosed].
//
// A view (see [WithReentry]) only ends its own context.
func (h *handle) Abandon() error {
	if h.view != nil {
		return h.view.release("abandon", h.lease)
	}
	return h.lease.Abandon()
}

// A lease is what locks of all kinds have in common.
type lease struct {
	public  carried // what embeds it, and is handed out
	locker  *Locker
	places  places // which ones of several it has; nil: the key is the only one
	attempt quorum.Attempt
	parent  context.Context //nolint:containedctx // the lock's context descends from it
	acquire quorum.Operation
	release quorum.Operation
	memory  protocol.Memory // of acquire
	renewal *renewal        // nil: none
	maxHold time.Duration
	from    *lease       // the hold that this one is to go on with; nil: none
	told    *acquisition // what hooks are told of; nil: none are
	due     atomic.Int64 // until, for its contexts, which are asked all the time

	// Guarded by attempt.Mu.
	until  clockdrift.Instant // the lease's end, drift taken off
	ends   clockdrift.Instant // the longest hold's end, which no lease passes: see [WithMaxHold]
	fence  int64
	ended  error        // why the hold is over: ErrLost, ErrReleased or ErrClosed
	cause  error        // the same with details, for ctx
	ctx    *heldContext // handed out; nil until then
	timer  *time.Timer  // ends ctx at until
	given  bool         // Release was called
	excess bool         // an extension that does not count may have set a lease beyond until
	raises bool         // an upgrade is under way
}

// Key returns the key, as it was given to Acquire. Of several keys it returns the text by which
// errors call them.
func (l *lease) Key() string { return l.attempt.Key }

// Token returns the random value of the key on the nodes. Whoever knows it can release the
// lock: keep it out of logs.
func (l *lease) Token() string { return l.attempt.Token }

// String shows the key and what is left of the lease. It does not show the token.
func (l *lease) String() string {
	if left := l.left(); left > 0 {
		return fmt.Sprintf("lock %q, valid for %v", l.Key(), left.Round(time.Millisecond))
	}
	return fmt.Sprintf("lock %q, over", l.Key())
}

// GoString is String, so that no format shows the token.
func (l *lease) GoString() string { return l.String() }

// Until returns the deadline, clock drift taken off, as a wall-clock time. For a lock that is
// over it is in the past, or now. To test the lease, call [Lock.Valid]: the wall clock may be
// stepped.
func (l *lease) Until() time.Time {
	left := l.left()
	return time.Now().Add(left).Round(0) // without the monotonic part, which stops while a machine sleeps
}

// Valid reports whether the lease still runs.
func (l *lease) Valid() bool { return l.left() > 0 }

// left is the rest of the lease, and at most 0 if the hold is over.
func (l *lease) left() time.Duration {
	now := l.observe()
	defer l.attempt.Mu.Unlock()
	return l.rest(now)
}

// rest is what is left of the lease; at most 0 if the hold is over. attempt.Mu is held.
func (l *lease) rest(now clockdrift.Instant) time.Duration {
	if l.ended != nil {
		return min(0, l.until.Sub(now))
	}
	return l.until.Sub(now)
}

// observe locks attempt.Mu, which the caller gives back, and ends the hold if its deadline has passed
// at the returned moment.
func (l *lease) observe() (now clockdrift.Instant) {
	now = l.locker.clock.Fresh()
	l.attempt.Mu.Lock()
	l.check(now)
	return now
}

// check ends the hold if its deadline has passed. attempt.Mu is held.
func (l *lease) check(now clockdrift.Instant) {
	if l.ended == nil && now >= l.until {
		l.end(WhyLost, now)
	}
}

// end ends the hold, unless it has ended before. attempt.Mu is held.
func (l *lease) end(why Why, now clockdrift.Instant) {
	if l.ended != nil {
		return
	}
	switch why {
	case WhyLost:
		l.ended, l.cause = ErrLost, l.lossCause()
	case WhyClosed:
		l.ended, l.cause = ErrClosed, ErrClosed
	default:
		l.ended, l.cause = ErrReleased, ErrReleased
	}
	l.places.end(l)
	if why != WhyAbandoned { // its key stays, whichever token has it
		l.attempt.End(why != WhyConverted)
	}
	if l.excess && why == WhyLost {
		l.attempt.Abandon()
	}
	if l.renewal != nil {
		l.locker.renewals.remove(l.renewal)
	}
	if l.ctx != nil {
		l.timer.Stop()
		l.ctx.cancel(l.cause)
	}
	if l.told != nil {
		l.told.over(why, now)
	}
}

// lossCause is why the lock was lost. attempt.Mu is held.
func (l *lease) lossCause() error {
	switch allowance := clockdrift.Allowance(l.attempt.Longest, l.locker.options.drift); {
	case l.renewal != nil && l.renewal.failed != nil:
		return failure(l.renewal.failed, ErrLost)
	case l.until >= l.ends.Add(-allowance-MinTTL):
		return fmt.Errorf("%w: it was held for %v, the longest time that WithMaxHold allows", ErrLost, l.maxHold)
	}
	return ErrLost
}

type lockKey struct{}

// What is carried by a context is a lock of any kind, or a view of one.
type carried interface {
	LockInfo
	Release(ctx context.Context) error
	body() *lease
}

// A public lock is one of a certain kind.
type public interface {
	carried
	comparable
}

func (l *lease) body() *lease { return l }

// FromContext returns the lock whose [Lock.Context] ctx is or descends from, the
// innermost if there are several, or nil.
func FromContext(ctx context.Context) *Lock {
	for at := innermost(ctx); at != nil; at = innermost(at.body().parent) { //nolint:contextcheck // ctx descends from it
		if lock, ok := at.(*Lock); ok {
			return lock
		}
	}
	return nil
}

// innermost returns the lock of any kind that ctx carries, or nil.
func innermost(ctx context.Context) carried {
	at, _ := ctx.Value(lockKey{}).(carried)
	return at
}

// Detach returns a context like ctx that carries no lock: what runs under it does not work for
// the locks of ctx, and may outlive them. It keeps the end of ctx; for one that does not end with
// the lock, give it context.WithoutCancel(ctx).
func Detach(ctx context.Context) context.Context { return context.WithValue(ctx, lockKey{}, nil) }

// holder returns the valid lock of l on key that ctx carries, or nil. Locks may be nested: each
// has the context that it was acquired under.
func (l *Locker) holder(ctx context.Context, key string) *lease {
	for _, lock := range l.carries(ctx) {
		if lock.places == nil && lock.attempt.Has(key) && lock.Valid() {
			return lock
		}
	}
	return nil
}

// carries returns the locks of l that ctx carries, the innermost first.
func (l *Locker) carries(ctx context.Context) (all []*lease) {
	for at := innermost(ctx); at != nil; at = innermost(at.body().parent) { //nolint:contextcheck // ctx descends from it
		if at.body().locker == l {
			all = append(all, at.body())
		}
	}
	return all
}

// Votes returns each node's answer to the acquire so far: some arrive after the deciding vote.
func (l *lease) Votes() []Vote {
	l.attempt.Mu.Lock()
	defer l.attempt.Mu.Unlock()
	return votes(l.last().Tally())
}
