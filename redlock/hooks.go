package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// Hooks are functions that are told what a [Locker] does. Any of them may be nil.
//
// AcquireStart, AcquireEnd, ReleaseEnd, and the ExtendEnd of an Extend are called by the goroutine that
// has made the call, at the same time for different locks: they must be fast, for it waits for them. A
// panic goes up to the caller. One in AcquireEnd first releases the lock, which the caller does not
// get.
//
// All others are called one after the other, in order, by a goroutine of the Locker's own, on which no
// lock depends: one that blocks delays the others, and costs no lock. A renewal or a batch is left out
// while 4,096 calls wait, and the end of a hold or an event while 131,072 do: [HookStats] counts that,
// and [HooksLost] tells it. A panic is told as [HookPanicked], and the next call goes on. If Node is
// nil, or panics at that, both are logged by [slog.Default].
//
// No mutex of the library is held meanwhile: all of them may call anything, also Release and
// [Locker.Close]. A function that is nil costs nothing.
//
// AcquireStart and AcquireEnd are told of each call that takes a lock of any kind, also of one that
// is refused before anything is sent. Each start has exactly one end. AcquireEnd has a Lock if a
// hold has begun, and each hold has exactly one HoldEnd, which comes after its AcquireEnd. It is
// told within a second after a lock was lost whose Context nobody has asked for, and at once
// otherwise. A Release does not wait for it.
//
// [Lock.Downgrade] and [SharedLock.TryUpgrade] are told as acquires that convert
// ([AcquireStart.Converts]): the old hold ends ([WhyConverted]) and another begins, unless the
// conversion fails. A view of [WithReentry] is told as an acquire ([HowReentered]) that begins no
// hold.
type Hooks struct {
	// AcquireStart returns a context that is ctx or descends from it; nil means ctx. The lock's
	// context descends from it, and all that is told of the acquire and of the lock comes with it.
	// Ctx is that of the call; of a conversion, that of the acquire of the lock that is converted.
	AcquireStart func(ctx context.Context, a AcquireStart) context.Context
	// AcquireEnd is told just before the call returns.
	AcquireEnd func(ctx context.Context, a AcquireEnd)
	// HoldEnd is told after the lock was released, lost or converted, or the Locker was closed.
	HoldEnd func(ctx context.Context, h HoldEnd)
	// ReleaseEnd is told just before a Release returns, if there was a hold to release. Neither
	// Abandon, nor a second Release, nor that of a view is told.
	ReleaseEnd func(ctx context.Context, r ReleaseEnd)
	// ExtendEnd is told just before an Extend returns, and of a renewal once every node has
	// answered or timed out, as [OnRenewal] is: so with a silent node it is told late.
	ExtendEnd func(ctx context.Context, e ExtendEnd)
	// Batch is told of each batch of requests to a node when it is back, but not of probes.
	Batch func(b Batch)
	// Node is told what [OnEvent] tells.
	Node func(e Event)
}

// WithHooks sets functions that are told what the Locker does. It may be given several times: all
// are told, in the order in which they were given. Each AcquireStart gets the context that the one
// before has returned, and all other functions get the last one. By default nobody is told.
func WithHooks(h Hooks) Option {
	return option(func(o *lockerOptions) { o.hooks = append(o.hooks, h) })
}

// LockKind is a kind of locks.
type LockKind uint8

// The kinds of locks.
const (
	KindExclusive LockKind = iota + 1 // a [Lock]
	KindShared                        // a [SharedLock]
	KindKeys                          // a [KeysLock]
	KindPermit                        // a [Permit] of a [Semaphore]
)

func (k LockKind) String() string {
	return fault.Name(k, "unknown", "exclusive", "shared", "keys", "permit")
}

// How says how an acquire came to its last try.
type How uint8

// The ways to a try.
const (
	HowDirect     = How(waiting.Direct)     // it has not waited
	HowWoken      = How(waiting.Woken)      // it was woken: by a release here or elsewhere, or because its turn had come
	HowHandedOver = How(waiting.HandedOver) // a lock that was released here was handed to it
	HowPolled     = How(waiting.Polled)     // the time had come to ask again: nothing was announced
	HowReentered  = HowPolled + 1           // it is a view of a lock that its context carries: see [WithReentry]
	HowConverted  = HowPolled + 2           // of another lock: see [Lock.Downgrade] and [SharedLock.TryUpgrade]
)

func (h How) String() string {
	return fault.Name(h, "direct", "woken", "handed over", "polled", "reentered", "converted")
}

// Why says why a hold has ended.
type Why uint8

// The ends of a hold.
const (
	WhyReleased  Why = iota + 1 // by Release
	WhyLost                     // its lease ran out
	WhyClosed                   // by [Locker.Close]
	WhyAbandoned                // by Abandon
	WhyConverted                // it goes on as a lock of another kind
)

func (w Why) String() string {
	return fault.Name(w, "unknown", "released", "lost", "closed", "abandoned", "converted")
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
	How         How           // it came to its last try
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
	Key   string
	Kind  LockKind
	Fence int64         // 0 without [WithFences]
	Held  time.Duration // from the deciding vote of the acquire to the end; of a lost lock, to its deadline
	Left  time.Duration // of the lease, clock drift taken off; 0 of a lost lock
	Why   Why
	Err   error // of a lost lock the cause of its context's end, [ErrClosed] if the Locker is closed, nil otherwise
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

// Batch is requests of any number of locks that went to a node together.
type Batch struct {
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
func (b Batch) Contexts(most int) (all []context.Context) {
	var seen []*acquisition
	for _, a := range b.about {
		if len(all) < most && !slices.Contains(seen, a) {
			seen, all = append(seen, a), append(all, a.ctx)
		}
	}
	return all
}
