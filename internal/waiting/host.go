package waiting

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// A Host is the Locker whose waiters wait.
type Host interface {
	Now() clockdrift.Instant
	Jitter(bound time.Duration) time.Duration // a random time below the bound
	Closing() <-chan struct{}
	Size() (nodes, quorum int)
	Trip() time.Duration // the nodes' distance
	Others() bool        // another Locker listened when a release was last announced
	KeepLines() bool     // all nodes keep lines, and tell what changes there

	// Channels are those by which nodes announce that something of the key is free, and last that
	// its line is shorter.
	Channels(key string) []string
	Listen(channel string, w Listener)
	Unlisten(channel string, w Listener)
	Heard(channel int)            // a node has announced something by one of them
	HolderOf(token string) Holder // a lock of this Locker that is held, or nil

	// Carries returns the locks of this Locker that ctx works for.
	Carries(ctx context.Context) []Holder
	// Deadlock words a ring of waits: each part waits for the next, and the last for the first.
	Deadlock(ring []Block) error
	// GaveUp words the end of a wait: what was wrong at the last try, and what ended the waiting if
	// that was not an option; nil: it was.
	GaveUp(last error, tries int, waited time.Duration, end error) error
	// Tries has room for [MaxTries].
	Tries() chan struct{}
	// Try asks the nodes for the lock once. Without an attempt nothing was asked.
	Try(w *Waiter) (Attempt, error)
	// Await waits for what comes of an attempt that was handed over.
	Await(w *Waiter, a Attempt) error
	// Rank is that of a waiter's ticket; 0: it has none, or the host cannot say yet.
	Rank(w *Waiter) int64
	// Behind reports whether a set's ticket is behind another one's in the lines that both are in.
	Behind(w, other *Waiter) bool
	// NewTicket returns the places of a ticket that no node has.
	NewTicket() any
	// Leaves takes the ticket of w out of the lines of its keys. Next is the waiter whose ticket stands there from now
	// on, in the same step; nil: there is none.
	Leaves(w, next *Waiter)
	// Outlook says what a failed try means for waiters.
	Outlook(err error) Outlook
}

// A Listener hears what is announced by a channel.
type Listener interface {
	OnSubscribed(node int, subscribed bool)
	OnMessage(node int, payload string)
}

// A Holder is a lock of this Locker.
type Holder interface {
	// Left is what is left of its lease; at most 0 if it is over.
	Left() time.Duration
	// Joins reports whether others that join may hold the key beside it.
	Joins() bool
}

// An Attempt is one attempt to have the lock, or the lock that it has got.
type Attempt interface {
	Holder
	Found() quorum.Found // by its last round
}

// An Outlook says what a failed try means for waiters.
type Outlook struct {
	Taken   bool // others have the key, or parts of the votes
	Quorum  bool // a quorum is there, if not at once
	Waiting bool // a later try may do better by itself
}

// How says how a waiter came to its last try.
type How uint8

// The ways to a try.
const (
	Direct     How = iota // it has not waited
	Woken                 // something has changed
	HandedOver            // a lock was handed to it
	Polled                // by its alarm
)

// Options say how long to wait, and how often to try.
type Options struct {
	// Several: the key has several slots, which are held side by side. A lock of this Locker is
	// not all that the first waiter waits for, and a released slot goes to the next one while the
	// first asks the nodes.
	Several bool
	// Name is that of the Locker in the key's line at the nodes; "": this process leaves no ticket
	// there.
	Name string
	// Fair: its second try leaves its ticket, while it is the first here. The nodes say who is next,
	// not chance. Others leave one where there are others, or readers.
	Fair                   bool
	Ages                   bool // it leaves its ticket from setAge on, where others listen at least, and not before
	Wants                  int  // so many keys or permits as one lock; 0: one, alone
	Most                   int  // a waiter that wants more than so many waits for the caller
	MaxWait                time.Duration
	BackoffMin, BackoffMax time.Duration
	Outage                 time.Duration // how long to go on without a quorum
}
