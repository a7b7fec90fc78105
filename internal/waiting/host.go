package waiting

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/node"
)

// A Site is what all waiters of a Locker have in common.
type Site struct {
	*node.Set
	Closing <-chan struct{} // closed when the Locker is to be
	Tries   chan struct{}   // holds one for each try of a waiter; has room for [MaxTries]
	Dates   Dates
}

// others reports whether another Locker listened when a release was last announced.
func (s *Site) others() bool { return slices.ContainsFunc(s.Nodes, (*node.Node).Others) }

// Dates are moments by the nodes' clocks. All waits of a Locker are dated by one offset, which keeps their
// order: the offset of the fastest reply.
type Dates struct {
	offset atomic.Int64 // of the nodes' clocks to ours, in microseconds; 0: not known
}

// maxWaitDrift is the greatest error of the nodes' time.
const maxWaitDrift = time.Second

// Learn notes how far the nodes' clocks are ahead of ours, in microseconds, as told with a refusal; 0: not
// told.
func (d *Dates) Learn(offset int64) {
	known := d.offset.Load()
	if offset != 0 && (known == 0 || offset > known || known-offset > maxWaitDrift.Microseconds()) {
		d.offset.Store(offset)
	}
}

// Of is a moment by the nodes' clocks, in microseconds; 0: the nodes have not told their time.
func (d *Dates) Of(moment clockdrift.Instant) int64 {
	offset := d.offset.Load()
	if offset == 0 {
		return 0
	}
	return int64(moment)/int64(time.Microsecond) + offset
}

// A Host is the Locker whose waiters wait, or a semaphore of the Locker.
type Host interface {
	// Channels are the channels on which nodes announce free keys, and last the channel of a shorter line.
	Channels(key string) []string
	// Heard tells that a node has announced something on the channel of this number.
	Heard(channel int)
	// HolderOf is a held lock of the Locker, or nil.
	HolderOf(token string) Holder

	// Try asks the nodes for the lock once. Without an attempt nothing was asked.
	Try(w *Waiter) (Attempt, error)
	// Await waits for the outcome of an attempt that was handed over.
	Await(w *Waiter, a Attempt) error
	// Outlook is the meaning of a failed try for waiters.
	Outlook(err error) acquire.Outlook
	// GaveUp words the end of a wait: the last try's error, and the cause of the end; nil: an option.
	GaveUp(last error, tries int, waited time.Duration, end error) error
	// Deadlock words a ring of waits: each part waits for the next, and the last for the first. Lines.mu is held.
	Deadlock(ring []Block) error

	// NewTicket makes a ticket for a ranked waiter. No node has the ticket yet.
	NewTicket(w *Waiter) Ticket
	// Leaves takes was out of the lines, and in the same step puts next there, if not nil.
	Leaves(was, next Ticket)
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
