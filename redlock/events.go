package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	NodeUp           EventKind = iota + 1 // the node answered and may vote, or its user may run scripts again
	NodeDown                              // the node did not answer, or is unfit: the next question comes after 1s at the most
	NodeUnchecked                         // INFO fails, and the node votes unchecked: Err says what to allow
	NodeEvicts                            // the node may evict locks, and [WithEvictingNodes] lets it vote
	NodeMuted                             // announcements of releases do not arrive, and waiters poll the node: see Err
	NodeClockStepped                      // its clock was set. After a step forward keys may have expired early there: see [WithClockGuard]
	NodeClockDrifts                       // its clock runs faster or slower than a time service allows: see [WithDriftFactor]
	NodeQuarantined                       // the node does not vote: it may have forgotten votes, or is of another node set. Err says for how long
	NodeAdmitted                          // a quarantine has ended
	NodeLimited                           // its user may not run scripts that no command replaces: Err says what does not work, and what to do
	LockForgotten                         // an unreachable [Lock] was given back: Err has the key, and where it was acquired; Lasted is its age
)

func (k EventKind) String() string {
	return fault.Name(k, "nothing", "node up", "node down", "node unchecked", "node evicts", "node muted", "node's clock stepped", "node's clock drifts",
		"node quarantined", "node admitted", "node limited", "lock forgotten")
}

// Event is news for an operator, of a node or of a lock, which no call returns.
type Event struct {
	Kind EventKind
	Node string // the node's name; "": the event is about a lock
	Err  error  // why; nil for NodeUp and NodeAdmitted
	Time time.Time

	Lasted time.Duration // how long the node was in its last state: down, up, in quarantine; 0: in none
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
