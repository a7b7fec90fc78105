package redlock

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/quorumlock/quorumlock/clockdrift"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A Lock is held by this process until it is released, its lease ends, or the Locker is closed: alone a key
// ([Locker.Acquire]), several keys ([Locker.AcquireAll]) or permits of a [Semaphore], or a key together with
// other readers ([Locker.AcquireShared]). Several are one lock: if one key is lost at a majority of the
// nodes, no extension succeeds any more, and all keys are lost at the deadline; the error names the key. All
// methods are safe for concurrent use.
//
// A lock is renewed until it is released, but for [WithoutRenewal] and [WithMaxHold]. A renewed lock that
// the program can no longer reach, neither by the Lock nor by its Context or an unended context derived from
// it, is given back within a second after the garbage collector has seen that ([LockForgotten]). Keep the
// Lock for as long as the key is to be held: a deferred Release does.
type Lock struct {
	// Every method that users call has the Lock as its receiver, and not the lease: a method value, as of a
	// deferred Release, then holds the Lock, and so the Lock is not forgotten.
	*lease
	ctx *heldContext // handed out; nil until then. Guarded by lease.mu
}

// Shared reports whether other readers may have the key at the same time: see
// [Locker.AcquireShared].
func (l *Lock) Shared() bool { return l.hold.Kind.Joins }

// Keys returns the keys, in order; of permits the semaphore's.
func (l *Lock) Keys() []string { return slices.Clone(l.keys()) }

// keys are the user's names, in order; of permits the semaphore's.
func (l *lease) keys() []string {
	if l.slots != nil {
		return []string{l.hold.Key}
	}
	return l.hold.Names()
}

// Slots returns the slots of its semaphore that a lock has, in order, from 0 on; nil if the lock is not on
// permits. No other valid lock has one of them: a slot can name a resource, as GPU 3. Fences ([WithFences])
// are a slot's: compare them with those of the same slot only.
func (l *Lock) Slots() []int { return l.slots.numbers() }

// Age returns for how long the lock has been held.
func (l *Lock) Age() time.Duration { return l.locker.clock.Now().Sub(l.began) }

// A kind is a way to hold keys.
type kind struct {
	*protocol.Kind

	pool    *pool   // the slots of which some are held; nil: the key itself is held
	permits int     // slots that are held as one lock; 0: a single one, by itself
	slots   slotSet // the slots that an acquire hands out; nil: the key itself
	// try asks for any of several slots, each with a kind of its own; nil: the kind has a key.
	try func(ctx context.Context, r request, waits bool) (*lease, error)
}

var exclusive = &kind{Kind: protocol.Exclusive}

// A lease is common to locks of all kinds.
type lease struct {
	locker      *Locker
	slots       slotSet // slots of a semaphore; nil: the key itself
	hold        quorum.Hold
	parent      context.Context //nolint:containedctx // for the lock's own context: the call's, by the hooks
	acquisition *acquisition    // nil: no hooks are told
	row         waiting.Row     // the hand-overs before

	began  clockdrift.Instant // the hold
	handle weak.Pointer[Lock] // handed out: nothing here keeps it
	from   [6]uintptr         // the calls that have acquired the lock, if it is renewed
	handed atomic.Bool        // handle and from are set
	gone   atomic.Bool        // it was forgotten: set before the hold ends

	mu     sync.Mutex              // guards all below
	cancel context.CancelCauseFunc // ends the lock's context; nil: nobody has asked for the context
	timer  *time.Timer             // ends the context at the deadline
	wanted chan struct{}           // see [Lock.Wanted]; nil: nobody has asked for it
	over   error                   // the cause of the context's end; nil: the hold goes on
}

// Key returns the key, as it was given; for several keys their text in errors.
func (l *Lock) Key() string { return l.hold.Key }

// Token returns the random value of the key on the nodes. Whoever knows the token can release the lock: keep
// it out of logs.
func (l *Lock) Token() string { return l.hold.Token }

// Fence returns the number that orders the holders of the key, or 0 without [WithFences]. Give it to the
// store that the lock protects: the store refuses a number below the greatest so far (package fence helps).
func (l *Lock) Fence() int64 { return l.hold.Fence() }

// String shows the keys, slots, and rest of the lease, but not the token.
func (l *Lock) String() string {
	what := fmt.Sprintf("lock %q", l.Key())
	if l.Shared() {
		what = "shared " + what
	}
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

// GoString is String: no format shows the token.
func (l *Lock) GoString() string { return l.String() }

// Until returns the deadline, clock drift taken off, as a wall-clock time, which may be stepped: to test the
// lease, call Valid.
func (l *Lock) Until() time.Time { return l.until() }

// until is the deadline by the wall clock.
func (l *lease) until() time.Time {
	left := l.hold.Left()
	return time.Now().Add(left).Round(0) // without the monotonic part, which stops while a machine sleeps
}

// Valid reports whether the lease still runs.
func (l *Lock) Valid() bool { return l.valid() }

func (l *lease) valid() bool { return l.hold.Left() > 0 }

// handOut makes the user's Lock of the lease.
func (l *lease) handOut() *Lock {
	lock := &Lock{lease: l}
	l.handle = weak.Make(lock)
	if l.hold.Renewal != nil {
		runtime.Callers(2, l.from[:])
	}
	l.handed.Store(true)
	return lock
}

// handedOut is the user's Lock; nil: not handed out yet, or out of reach.
func (l *lease) handedOut() *Lock {
	if !l.handed.Load() {
		return nil
	}
	return l.handle.Value()
}

// A keeper is a lease for its hold: the [quorum.Keeper].
type keeper lease

// Begins notes that the hold begins, and may end the reader's hold before it: see [quorum.Keeper].
func (k *keeper) Begins(now clockdrift.Instant) error {
	l := (*lease)(k)
	l.began = now
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
	if l.over = cause; l.cancel != nil {
		l.timer.Stop()
		l.cancel(cause)
	}
	if l.acquisition != nil {
		l.acquisition.over(e, cause)
	}
	return cause
}

type lockKey struct{}

// FromContext returns the lock whose [Lock.Context] ctx is or descends from, the innermost if there
// are several, or nil.
func FromContext(ctx context.Context) *Lock {
	lock, _ := ctx.Value(lockKey{}).(*Lock)
	return lock
}

// Detach returns a context like ctx that carries no lock: its work is not for the locks of ctx, and may
// outlive them. It keeps the end of ctx; to outlive ctx, too, give it context.WithoutCancel(ctx).
func Detach(ctx context.Context) context.Context { return context.WithValue(ctx, lockKey{}, nil) }

// holder returns the valid lock of l on key that ctx carries, or nil. Locks may be nested: each has the
// context under which it was acquired.
func (l *Locker) holder(ctx context.Context, key string) *lease {
	for _, lock := range l.carries(ctx) {
		if lock.slots == nil && lock.hold.Has(key) && lock.valid() {
			return lock
		}
	}
	return nil
}

// carries returns the locks of l that ctx carries, the innermost first.
func (l *Locker) carries(ctx context.Context) (all []*lease) {
	for at := FromContext(ctx); at != nil; at = FromContext(at.parent) { //nolint:contextcheck // ctx descends from it
		if at.locker == l {
			all = append(all, at.lease)
		}
	}
	return all
}

// Votes returns each node's answer to the acquire so far.
func (l *Lock) Votes() []Vote {
	return votes(l.hold.Last().Tally())
}
