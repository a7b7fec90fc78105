package waiting

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/subscription"
)

// A Host is the Locker whose waiters wait.
type Host interface {
	Now() clockdrift.Instant
	Jitter(bound time.Duration) time.Duration // a random time below the bound
	Closing() <-chan struct{}
	Size() (nodes, quorum int)
	Trip() time.Duration // the nodes' distance
	Others() bool        // another Locker listened when a release was last announced
	KeepLines() bool     // all nodes keep lines, and announce their changes

	// Channels are the channels on which nodes announce free keys, and last the channel of a shorter line.
	Channels(key string) []string
	Listen(channel string, w subscription.Listener)
	Unlisten(channel string, w subscription.Listener)
	Heard(channel int)            // a node has announced something on this channel
	HolderOf(token string) Holder // a held lock of this Locker, or nil

	// Carries returns the locks of this Locker that ctx works for.
	Carries(ctx context.Context) []Holder
	// Deadlock words a ring of waits: each part waits for the next, and the last for the first.
	Deadlock(ring []Block) error
	// GaveUp words the end of a wait: the last try's error, and the cause of the end; nil: an option.
	GaveUp(last error, tries int, waited time.Duration, end error) error
	// Tries has room for [MaxTries].
	Tries() chan struct{}
	// Try asks the nodes for the lock once. Without an attempt nothing was asked.
	Try(w *Waiter) (Attempt, error)
	// Await waits for the outcome of an attempt that was handed over.
	Await(w *Waiter, a Attempt) error
	// Rank is the rank of a waiter's ticket; 0: it has none, or the host does not know it yet.
	Rank(w *Waiter) int64
	// Behind reports whether a set's ticket is behind another's in their common lines.
	Behind(w, other *Waiter) bool
	NewTicket(w *Waiter) Ticket // for a ranked waiter; no node has the ticket yet
	Leaves(was, next Ticket)    // takes was out of the lines, and in the same step puts next there, if not nil
	// Outlook is the meaning of a failed try for waiters.
	Outlook(err error) acquire.Outlook
}

// A Holder is a lock of this Locker.
type Holder interface {
	// Left is the rest of the lease; 0 or less: it is over.
	Left() time.Duration
	// Joins reports whether others that join may hold the key at the same time.
	Joins() bool
}

// An Attempt is an attempt to get the lock, or the lock itself.
type Attempt interface {
	Holder
	Found() acquire.Found // by its last round
}

// How says how a waiter came to its last try.
type How uint8

// MaxTries is how many waiters try at once: more would fill no larger batches.
const MaxTries = 256

// The ways to a try.
const (
	Direct     How = iota // without waiting
	Woken                 // something has changed
	HandedOver            // a released lock was handed to it
	Polled                // by its alarm
)
