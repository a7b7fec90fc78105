package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// Hooks are functions that are told what a Locker does. Any of them may be nil, and costs nothing then. No
// mutex of the library is held meanwhile: all of them may call anything, also Release and [Locker.Close].
//
// AcquireStart, AcquireEnd, ReleaseEnd, and the ExtendEnd of an Extend are called by the goroutine that has
// made the call, at the same time for different locks: they must be fast. A panic goes up to the caller; one
// in AcquireEnd first releases the lock, which the caller does not get.
//
// All others are called one after the other by a goroutine of the Locker's own, on which no lock depends. A
// renewal or a batch is left out while 4,096 calls wait, and the end of a hold or an event while 131,072 do.
// [Stats] counts left-out calls and panics; slog.Default logs the first panic.
//
// Each call that takes a lock has one AcquireStart and one AcquireEnd, also if it is refused before anything
// is sent. Each hold that has begun has one HoldEnd, after its AcquireEnd: a second later at most where a lock
// was lost. A conversion ([Lock.Downgrade], [Lock.TryUpgrade]) ends one hold and begins another.
type Hooks struct {
	// AcquireStart returns ctx or a descendant, from which the lock's context descends; nil means ctx. All
	// that is told of the lock comes with it. Ctx is that of the call; of a conversion, that of the acquire.
	AcquireStart func(ctx context.Context, a AcquireStart) context.Context
	AcquireEnd   func(ctx context.Context, a AcquireEnd) // just before the call returns
	HoldEnd      func(ctx context.Context, h HoldEnd)
	ReleaseEnd   func(ctx context.Context, r ReleaseEnd) // just before a Release returns, if there was a hold to release
	// ExtendEnd is told just before an Extend returns, and of a renewal once every node has
	// answered or timed out. A renewal that not all nodes have granted is a warning.
	ExtendEnd func(ctx context.Context, e ExtendEnd)
	Batch     func(b NodeBatch) // of each batch of requests to a node when it is back, but not of probes
	Node      func(e Event)
}

// WithHooks sets functions that are told what the Locker does. Of several all are told, in order:
// each AcquireStart gets the context that the one before has returned.
func WithHooks(h Hooks) Option {
	return option(func(o *lockerOptions) { o.hooks = append(o.hooks, h) })
}

// The kinds of locks, the paths to a try, and the ends of a hold.
const (
	kindExclusive, kindShared, kindKeys, kindPermit = "exclusive", "shared", "keys", "permit"

	pathDirect, pathWoken, pathHandedOver, pathPolled, pathConverted = "direct", "woken", "handed over", "polled", "converted"

	endLost, endClosed, endForgotten = "lost", "closed", "forgotten"
)

// pathOf is how a waiter came to its last try.
func pathOf(how waiting.How) string {
	return fault.Name(how, pathDirect, pathWoken, pathHandedOver, pathPolled)
}

// endOf is why a hold has ended.
func endOf(why kernel.Why) string {
	return fault.Name(why, "unknown", "released", endLost, endClosed, "abandoned", "converted")
}

// AcquireStart is a call that takes a lock.
type AcquireStart struct {
	Key      string   // as it was given; of several keys the text by which errors call them
	Keys     []string // of [Locker.AcquireAll], as they were given, not to be changed; nil: Key is the only one
	Kind     string   // "exclusive", "shared", "keys" (several) or "permit"
	Waits    bool     // it may wait for a holder: it is no TryAcquire
	Converts bool     // a lock that is held: see [Lock.Downgrade] and [Lock.TryUpgrade]
}

// AcquireEnd is what came of a call that takes a lock.
type AcquireEnd struct {
	AcquireStart

	Lock   *Lock         // nil: there is none
	Err    error         // what the call returns; nil: it has the lock
	Waited time.Duration // from the start of the call to its end
	Tries  int           // how often nodes were asked; 0: never
	// Path is how it came to its last try: "direct", without waiting; "woken", by a release or its turn;
	// "handed over", a lock that was released here; "polled", by time; "converted", of another lock.
	Path        string
	Fence       int64 // of the lock; 0 without [WithFences]
	FenceRounds int   // further rounds in which a fence was sought, because the first was not great enough
}

// Votes returns each node's answer to the last try, as [Lock.Votes] or the [QuorumError] has
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
	Kind   string
	Fence  int64         // 0 without [WithFences]
	Lasted time.Duration // from the deciding vote of the acquire to the end; of a lost lock, to its deadline
	Left   time.Duration // of the lease, clock drift taken off; 0 of a lost lock
	Reason string        // "released", "lost" (its lease ran out), "closed" (by [Locker.Close]), "abandoned", "converted" or "forgotten" ([LockForgotten])
	Err    error         // of a lost lock the cause of its context's end, [ErrClosed] if the Locker is closed, nil otherwise
}

// ReleaseEnd is the end of a Release.
type ReleaseEnd struct {
	Key        string
	Kind       string
	Latency    time.Duration // of the call
	Err        error         // what it returns
	HandedOver bool          // the key went straight to a waiter of this Locker
}

// ExtendEnd is the end of an Extend, or of a renewal.
type ExtendEnd struct {
	Key     string
	Kind    string
	Renewal bool          // see [WithoutRenewal]
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
