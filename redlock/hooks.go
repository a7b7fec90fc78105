package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
)

// Hooks are functions that are told what a [Locker] does. Any of them may be nil, and costs nothing
// then. No mutex of the library is held meanwhile: all of them may call anything, also Release and
// [Locker.Close].
//
// AcquireStart, AcquireEnd, ReleaseEnd, and the ExtendEnd of an Extend are called by the goroutine
// that has made the call, at the same time for different locks: they must be fast. A panic goes up
// to the caller; one in AcquireEnd first releases the lock, which the caller does not get.
//
// All others are called one after the other by a goroutine of the Locker's own, on which no lock
// depends. A renewal or a batch is left out while 4,096 calls wait, and the end of a hold or an
// event while 131,072 do: [HookStats] counts that, and [HooksLost] tells it. A panic is told as
// [HookPanicked], and the next call goes on. If Node is nil, or panics at that, both are logged by
// [slog.Default].
//
// AcquireStart and AcquireEnd are told of each call that takes a lock of any kind, also of one that
// is refused before anything is sent: each start has one end. Each hold that has begun has one
// HoldEnd, after its AcquireEnd: within a second after a lock was lost whose Context nobody has
// asked for, and at once otherwise. A Release does not wait for it. [Lock.Downgrade] and
// [SharedLock.TryUpgrade] are told as acquires that convert: the old hold ends ([EndConverted]) and
// another begins, unless the conversion fails. A view of [WithReentry] is told as an acquire
// ([PathReentered]) that begins no hold.
type Hooks struct {
	// AcquireStart returns a context that is ctx or descends from it; nil means ctx. The lock's
	// context descends from it, and all that is told of the lock comes with it. Ctx is that of the
	// call; of a conversion, that of the acquire of the lock that is converted.
	AcquireStart func(ctx context.Context, a AcquireStart) context.Context
	AcquireEnd   func(ctx context.Context, a AcquireEnd) // just before the call returns
	HoldEnd      func(ctx context.Context, h HoldEnd)
	// ReleaseEnd is told just before a Release returns, if there was a hold to release: not of
	// Abandon, a second Release, or a view.
	ReleaseEnd func(ctx context.Context, r ReleaseEnd)
	// ExtendEnd is told just before an Extend returns, and of a renewal once every node has
	// answered or timed out. A renewal that not all nodes have granted is a warning, before the
	// lock is lost.
	ExtendEnd func(ctx context.Context, e ExtendEnd)
	Batch     func(b NodeBatch) // of each batch of requests to a node when it is back, but not of probes
	Node      func(e Event)
}

// WithHooks sets functions that are told what the Locker does. Of several all are told, in the
// order in which they were given; each AcquireStart gets the context that the one before has
// returned. By default nobody is told.
func WithHooks(h Hooks) Option {
	return option(func(o *lockerOptions) { o.hooks = append(o.hooks, h) })
}

// LockKind is a kind of locks.
type LockKind uint8

// The kinds of locks.
const (
	KindExclusive LockKind = iota + 1 // a [Lock] on one key
	KindShared                        // a [SharedLock]
	KindKeys                          // a [Lock] on several keys
	KindPermit                        // a [Lock] on permits of a [Semaphore]
)

func (k LockKind) String() string {
	return fault.Name(k, "unknown", "exclusive", "shared", "keys", "permit")
}

// AcquirePath is how an acquire came to its last try.
type AcquirePath uint8

// The paths to a try.
const (
	PathDirect     AcquirePath = iota // it has not waited
	PathWoken                         // it was woken: by a release here or elsewhere, or because its turn had come
	PathHandedOver                    // a lock that was released here was handed to it
	PathPolled                        // the time had come to ask again: nothing was announced
	PathReentered                     // it is a view of a lock that its context carries: see [WithReentry]
	PathConverted                     // of another lock: see [Lock.Downgrade] and [SharedLock.TryUpgrade]
)

func (p AcquirePath) String() string {
	return fault.Name(p, "direct", "woken", "handed over", "polled", "reentered", "converted")
}

// EndReason is why a hold has ended.
type EndReason uint8

// The ends of a hold.
const (
	EndReleased  EndReason = iota + 1 // by Release
	EndLost                           // its lease ran out
	EndClosed                         // by [Locker.Close]
	EndAbandoned                      // by Abandon
	EndConverted                      // it goes on as a lock of another kind
)

func (r EndReason) String() string {
	return fault.Name(r, "unknown", "released", "lost", "closed", "abandoned", "converted")
}

// LockInfo is what hooks see of a lock of any kind. Its methods are safe for concurrent use.
type LockInfo interface {
	Key() string
	Fence() int64     // 0 without [WithFences]
	Until() time.Time // the deadline
	Valid() bool      // the lease still runs
	Votes() []Vote    // each node's answer to the acquire so far
	String() string   // without the token
}

// AcquireStart is a call that takes a lock.
type AcquireStart struct {
	Key      string   // as it was given; of several keys the text by which errors call them
	Keys     []string // of [Locker.AcquireAll], as they were given, not to be changed; nil: Key is the only one
	Kind     LockKind
	Waits    bool // it may wait for a holder: it is no TryAcquire
	Converts bool // a lock that is held: see [Lock.Downgrade] and [SharedLock.TryUpgrade]
}

// AcquireEnd is what came of a call that takes a lock.
type AcquireEnd struct {
	AcquireStart

	Lock        LockInfo      // nil: there is none. A [Lock.Downgrade] may have both Lock and Err
	Err         error         // what the call returns; nil: it has the lock
	Waited      time.Duration // from the start of the call to its end
	Tries       int           // how often nodes were asked; 0: never
	Path        AcquirePath   // it came to its last try
	Fence       int64         // of the lock; 0 without [WithFences]
	FenceRounds int           // further rounds in which a fence was sought, because the first was not great enough
}

// Votes returns each node's answer to the last try, as [LockInfo.Votes] or the [QuorumError] has
// it; nil if no node was asked. Nothing is computed before it is called.
func (a AcquireEnd) Votes() []Vote {
	var quorum *QuorumError
	switch {
	case a.Lock != nil:
		return a.Lock.Votes()
	case errors.As(a.Err, &quorum):
		return quorum.Votes
	}
	return nil
}

// HoldEnd is the end of a hold.
type HoldEnd struct {
	Key    string
	Kind   LockKind
	Fence  int64         // 0 without [WithFences]
	Lasted time.Duration // from the deciding vote of the acquire to the end; of a lost lock, to its deadline
	Left   time.Duration // of the lease, clock drift taken off; 0 of a lost lock
	Reason EndReason
	Err    error // of a lost lock the cause of its context's end, [ErrClosed] if the Locker is closed, nil otherwise
}

// ReleaseEnd is the end of a Release.
type ReleaseEnd struct {
	Key        string
	Kind       LockKind
	Latency    time.Duration // of the call
	Err        error         // what it returns
	HandedOver bool          // the key went straight to a waiter of this Locker
}

// ExtendEnd is the end of an Extend, or of a renewal.
type ExtendEnd struct {
	Key     string
	Kind    LockKind
	Renewal bool          // see [WithRenewal]
	Attempt int           // of a renewal: 1 for the first since the lease was last prolonged, 2 if one has failed since, …; 0 of an Extend
	Granted int           // the nodes that hold the lock: of a renewal of all nodes, of an Extend of those that have answered when it returns
	Need    int           // the votes that make a quorum; 0: no node was asked
	Nodes   int           // all of them
	Latency time.Duration // until the deciding vote
	Until   time.Time     // when the lease ends; one that failed leaves it
	Err     error         // why it failed; nil if it did not

	votes func() []Vote
}

// Votes returns each node's answer so far; nil if no node was asked.
func (e ExtendEnd) Votes() []Vote {
	if e.votes == nil {
		return nil
	}
	return e.votes()
}

// NodeBatch is requests of any number of locks that went to a node together.
type NodeBatch struct {
	Node     string        // its name
	Requests int           // at most 1000
	Commands int           // of all requests, and what the library asks for itself
	Queued   time.Duration // how long the oldest request had waited in this process
	Latency  time.Duration // from before the first byte left until all replies were there, or Err
	Err      error         // why there are no replies; nil if there are
	Attempt  int           // 1; 2 and more for what is sent once more, as after a broken connection

	about []*acquisition // one for each of the requests that are about a lock
}

// Contexts returns the contexts, as AcquireStart has returned them, of the locks that the first
// acquires and extensions in the batch are about: each once, and at most so many.
func (b NodeBatch) Contexts(most int) (all []context.Context) {
	var seen []*acquisition
	for _, a := range b.about {
		if len(all) < most && !slices.Contains(seen, a) {
			seen, all = append(seen, a), append(all, a.ctx)
		}
	}
	return all
}
