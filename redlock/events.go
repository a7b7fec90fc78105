package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	NodeUp        EventKind = iota + 1 // it answered and may vote, or its user may run scripts again
	NodeDown                           // it did not answer, or is unfit: it is asked again after 1s at the most
	NodeUnchecked                      // INFO fails, so it votes unchecked: Err says what to allow
	NodeEvicts                         // it may evict locks, and [WithEvictingNodes] lets it vote
	NodeMuted                          // no announcements of releases arrive from it, and waiters poll it: see Err
	// NodeClockStepped: its clock was set. After a step forward keys may have expired early there:
	// see [WithClockGuard].
	NodeClockStepped
	// NodeClockDrifts: its clock runs faster or slower than a time service allows. Leases allow for
	// [WithDriftFactor].
	NodeClockDrifts
	// NodeQuarantined: it does not vote, because it may have forgotten votes, or belongs to another
	// node set. Err says for how long, or what keeps it from voting again: see [WithRestartGuard].
	NodeQuarantined
	NodeAdmitted // one that was in quarantine votes again
	// NodeLimited: its user may not run scripts, and no commands of the server replace them, so it
	// gives no locks or does not hand them over; or the user may not look for deadlocks, or trim
	// counters of fences. Err says what does not work, and what to do.
	NodeLimited
	HooksLost    // calls of [Hooks] were left out, because one has not returned: Err is a [*HookError]. One a second at most
	HookPanicked // a function of [Hooks] has panicked: Err is a [*HookError]
)

func (k EventKind) String() string {
	return fault.Name(k, "nothing", "node up", "node down", "node unchecked", "node evicts", "node muted", "node's clock stepped", "node's clock drifts",
		"node quarantined", "node admitted", "node limited", "hooks lost", "hook panicked")
}

// Event is news for an operator, of a node or of the hooks, which no call returns.
type Event struct {
	Kind EventKind
	Node string // its name; "": it is about hooks
	Err  error  // why; nil for NodeUp and NodeAdmitted
	Time time.Time

	Lasted time.Duration // how long the node was in the state that it leaves: down, up, in quarantine; 0: in none
}

func (e Event) String() string {
	text := e.Kind.String()
	if e.Node != "" {
		text += ": " + e.Node
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}
