package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A Lock is what this process holds alone, until its lease ends, it is released, or the Locker is
// closed: a key ([Locker.Acquire]), several keys ([Locker.AcquireAll]), or permits of a
// [Semaphore]. Several are one lock: if one of them is lost at a majority of the nodes, no
// extension succeeds any more, and all are lost at the deadline; the error names the key. All
// methods are safe for concurrent use.
type Lock struct{ handle }

// Keys returns the keys, in order: of a lock on one key that key, of permits the semaphore's.
func (l *Lock) Keys() []string {
	if l.kind() == KindKeys {
		return slices.Clone(l.hold.Many.Names)
	}
	return []string{l.hold.Key}
}

// Slots returns which slots of its semaphore a lock has, in order, from 0 on; nil if it is none on
// permits. No other valid lock has one of them, so a slot can name what a permit is for, as GPU 3.
// Fences ([WithFences]) are those of a slot: compare them with those of the same slot only. Several
// permits have one number, greater than those of all earlier holders of each.
func (l *Lock) Slots() []int { return l.slots.numbers() }

// A kind is a way to hold keys, and what an acquire hands out for it.
type kind struct {
	*protocol.Kind
	lease func() *lease

	pool    *pool // the slots of which some are held; nil: the key itself is
	permits int   // so many slots are held as one lock; 0: one, by itself
	// try asks for any of several slots, each of which has a kind of its own; nil: it is the key.
	try func(ctx context.Context, r request, waits bool, bound *clockdrift.Instant) (*lease, error)
}

var exclusive = &kind{Kind: protocol.Exclusive, lease: newExclusive}

func newExclusive() *lease {
	l := new(struct {
		Lock
		body lease
	})
	return l.init(&l.body, &l.Lock)
}

// A handle is what a user has of a lease: the hold itself, or a view of it.
type handle struct {
	*lease
	view *view // nil: the hold itself
}

// init makes h the handle of l, in a public lock.
func (l *handle) init(of *lease, public carried) *lease {
	l.lease, of.public = of, public
	return of
}

// over is ErrReleased if h is a view that was released.
func (l *handle) over(what string) error {
	if l.view != nil && l.view.released.Load() {
		return &fault.StateError{Op: what, Key: l.hold.Key, Why: ErrReleased}
	}
	return nil
}

// Context returns a context that descends from the one given to Acquire, and ends with the lease,
// or just before a release is sent. It ends by a local timer; its Err and Done, but not what is
// derived from it, also compare the clock, for a timer is late where the process was stopped.
// context.Cause says why: [ErrLost] (after failed renewals with a [*QuorumError]), [ErrReleased] or
// [ErrClosed]. Give it to all work that the lock protects.
func (l *handle) Context() context.Context {
	if l.view != nil {
		return l.view.ctx
	}
	return l.lease.Context()
}

// Valid reports whether the lease still runs. Run work that may outlast it under Context.
func (l *handle) Valid() bool { return l.over("") == nil && l.lease.Valid() }

// Extend prolongs the lease to ttl from now, and never shortens it. The ttl is bounded and rounded
// as that of [WithTTL], and cut to what [WithMaxHold] leaves. Nodes that have lost the key get it
// again. It counts only if a quorum agrees before the lease ends; one that fails before that
// changes nothing, and may be repeated. For the errors see the table of the package.
func (l *handle) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.over("extend"); err != nil {
		return err
	}
	return l.lease.Extend(ctx, ttl)
}

// Release ends the lock's context, with the cause [ErrReleased], and then deletes the key at all
// nodes. It waits until a quorum has confirmed that, for one node time-out at the most: defer it.
// The other nodes, and failures at a minority, are handled in the background, until [Locker.Close].
// For the errors see the table of the package: [ErrLost] says that the work may not have been
// protected to its end. A view ([WithReentry]) sends nothing.
func (l *handle) Release() error {
	if l.view != nil {
		return l.view.release("release", l.lease)
	}
	return l.lease.Release()
}

// Abandon ends the hold, sends nothing, and leaves the key to its TTL: until then nobody else gets
// it. It is for a job that must not run again soon after it has succeeded. An extension under way
// may still prolong the key. A token of the user's own ([WithToken]) is spent for this Locker only.
// The error matches [ErrLost], [ErrReleased] or [ErrClosed] if the hold had ended before.
func (l *handle) Abandon() error {
	if l.view != nil {
		return l.view.release("abandon", l.lease)
	}
	return l.lease.Abandon()
}

// A lease is what locks of all kinds have in common.
type lease struct {
	public      carried // what embeds it, and is handed out
	locker      *Locker
	slots       slotSet // of a semaphore, which it has; nil: it has the key itself
	hold        quorum.Hold
	acquisition *acquisition // what hooks are told of; nil: none are
	row         waiting.Row  // of hand-overs, by which it came

	mu    sync.Mutex   // guards all below
	ctx   *heldContext // handed out; nil until then
	timer *time.Timer  // ends ctx at the deadline
	over  error        // the cause that ctx ends with; nil: the hold goes on
}

// Key returns the key, as it was given; of several keys the text by which errors call them.
func (l *lease) Key() string { return l.hold.Key }

// Token returns the random value of the key on the nodes. Whoever knows it can release the lock:
// keep it out of logs.
func (l *lease) Token() string { return l.hold.Token }

// Fence returns the number that orders the holders of the key, or 0 without [WithFences]. Give it
// to the store that the lock protects, which refuses a number below the greatest that it has seen
// (package fence helps).
func (l *lease) Fence() int64 { return l.hold.Fence() }

// String shows the key or the keys, the slots of permits, and what is left of the lease, not the
// token.
func (l *lease) String() string {
	what := fmt.Sprintf("lock %q", l.Key())
	switch slots := l.slots.numbers(); len(slots) {
	case 0:
	case 1:
		what = fmt.Sprintf("slot %d of %q", slots[0], l.Key())
	default:
		what = fmt.Sprintf("slots %v of %q", slots, l.Key())
	}
	if left := l.hold.Left(); left > 0 {
		return fmt.Sprintf("%s, valid for %v", what, left.Round(time.Millisecond))
	}
	return what + ", over"
}

// GoString is String, so that no format shows the token.
func (l *lease) GoString() string { return l.String() }

// Until returns the deadline, clock drift taken off, as a wall-clock time, which may be stepped: to
// test the lease, call Valid.
func (l *lease) Until() time.Time {
	left := l.hold.Left()
	return time.Now().Add(left).Round(0) // without the monotonic part, which stops while a machine sleeps
}

// Valid reports whether the lease still runs.
func (l *lease) Valid() bool { return l.hold.Left() > 0 }

// A keeper is a lease as its hold sees it: the [quorum.Keeper].
type keeper lease

// Begins notes that the hold begins, and may end that of a reader which it goes on with: see
// [quorum.Keeper].
func (k *keeper) Begins(now clockdrift.Instant) error {
	l := (*lease)(k)
	switch {
	case !l.locker.holds.add(l):
		return ErrClosed
	case !l.hold.GoesOn(now):
		l.locker.holds.remove(l)
		return ErrLost
	}
	l.slots.begin(l)
	if l.acquisition != nil {
		l.acquisition.holds(l, now)
	}
	return nil
}

// Ends ends the context, and tells of the end: see [quorum.Keeper].
func (k *keeper) Ends(e quorum.End) (cause error) {
	l := (*lease)(k)
	switch {
	case e.Failed != nil:
		cause = tallied(e.Failed, &e.Tally, ErrLost)
	case e.Exhausted:
		cause = fmt.Errorf("%w: it was held for %v, the longest time that WithMaxHold allows", ErrLost, l.hold.MaxHold)
	case e.Why == kernel.Lost:
		cause = ErrLost
	case e.Why == kernel.Closed:
		cause = ErrClosed
	default:
		cause = ErrReleased
	}
	l.slots.end(l)
	if e.Why == kernel.Converted {
		l.locker.holds.remove(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over = cause; l.ctx != nil {
		l.timer.Stop()
		l.ctx.cancel(cause)
	}
	if l.acquisition != nil {
		l.acquisition.over(e, cause)
	}
	return cause
}

type lockKey struct{}

// What is carried by a context is a lock of any kind, or a view of one.
type carried interface {
	LockInfo
	Context() context.Context
	Release() error
	body() *lease
}

// A public lock is one of a certain kind.
type public interface {
	carried
	comparable
}

func (l *lease) body() *lease { return l }

// FromContext returns the lock on a key, several keys or permits whose [Lock.Context] ctx is or
// descends from, the innermost if there are several, or nil.
func FromContext(ctx context.Context) *Lock { return fromContext[*Lock](ctx) }

// SharedFromContext is FromContext for readers.
func SharedFromContext(ctx context.Context) *SharedLock { return fromContext[*SharedLock](ctx) }

func fromContext[L public](ctx context.Context) (lock L) {
	for at := innermost(ctx); at != nil; at = innermost(at.body().hold.Parent) { //nolint:contextcheck // ctx descends from it
		if lock, ok := at.(L); ok {
			return lock
		}
	}
	return lock
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
		if lock.slots == nil && lock.hold.Has(key) && lock.Valid() {
			return lock
		}
	}
	return nil
}

// carries returns the locks of l that ctx carries, the innermost first.
func (l *Locker) carries(ctx context.Context) (all []*lease) {
	for at := innermost(ctx); at != nil; at = innermost(at.body().hold.Parent) { //nolint:contextcheck // ctx descends from it
		if at.body().locker == l {
			all = append(all, at.body())
		}
	}
	return all
}

// Votes returns each node's answer to the acquire so far.
func (l *lease) Votes() []Vote {
	return votes(l.hold.Last().Tally())
}
