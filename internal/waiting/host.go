package waiting

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A Host is the Locker whose waiters wait.
type Host interface {
	Now() clockdrift.Instant
	Jitter(bound time.Duration) time.Duration // a random time below the bound
	Closing() <-chan struct{}
	Size() (nodes, quorum int)
	Trip() time.Duration // the nodes' distance
	Others() bool        // another Locker listened when a release was last announced

	Listen(key string, w Listener)
	Unlisten(key string, w Listener)
	HolderOf(token string) Holder // a lock of this Locker that is held, or nil

	// Try asks the nodes for the lock once. Without an attempt nothing was asked.
	Try(w *Waiter) (Attempt, error)
	// Await waits for what comes of an attempt that was handed over.
	Await(ctx context.Context, a Attempt) error
	// Outlook says what a failed try means for those who wait.
	Outlook(err error) Outlook
}

// A Listener hears what is announced of a key.
type Listener interface {
	OnSubscribed(node int, subscribed bool)
	OnMessage(node int)
}

// A Holder is a lock of this Locker.
type Holder interface {
	// Left is what is left of its lease; at most 0 if it is over.
	Left() time.Duration
}

// An Attempt is one attempt to have the lock, or the lock that it has got.
type Attempt interface {
	Holder
	Last() Try // its last round
}

// A Try is one question to all nodes.
type Try interface {
	Holder() string // the token that has the key at a quorum, or ""
	SelfWoken() bool
	Frees() clockdrift.Instant // when the nodes will have forgotten the holder; 0: they do not say
	Free(do func(node int))    // the nodes that were found free
}

// An Outlook says what a failed try means for those who wait.
type Outlook struct {
	Taken   bool // others have the key, or parts of the votes
	Quorum  bool // a quorum is there, if not at once
	Waiting bool // a later try may do better by itself
}

// Options say how long to wait, and how often to try.
type Options struct {
	MaxWait                time.Duration
	Retries                int
	BackoffMin, BackoffMax time.Duration
	Outage                 time.Duration // how long to go on without a quorum
}
