package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// NodeUp: the node answered and may vote, or its user may run scripts after it might not.
	NodeUp = EventKind(fault.NodeUp)
	// NodeDown: the node did not answer in time, cut the connection, or is unfit: also if it
	// became a replica, an evicting node or another node's server while it was up.
	// It is left out; after a cooldown of at most 1s the next operation asks it again.
	NodeDown = EventKind(fault.NodeDown)
	// NodeUnchecked: INFO fails, so the node votes unchecked. Err says what to allow.
	NodeUnchecked = EventKind(fault.NodeUnchecked)
	// NodeEvicts: the node may evict locks, and [WithEvictingNodes] lets it vote.
	NodeEvicts = EventKind(fault.NodeEvicts)
	// NodeMuted: waiters receive no announcements of releases from the node, and poll it. Err
	// says why, and what to allow if the user's ACL forbids it.
	NodeMuted = EventKind(fault.NodeMuted)
	// NodeClockStepped: the node's clock was set. After a step forward keys may have expired
	// early there: see [WithClockGuard].
	NodeClockStepped = EventKind(fault.NodeClockStepped)
	// NodeClockDrifts: the node's clock runs faster or slower than a time service allows.
	// Leases allow for [WithDriftFactor].
	NodeClockDrifts = EventKind(fault.NodeClockDrifts)
	// NodeQuarantined: the node does not vote, because it may have forgotten votes, or belongs
	// to another node set. Err says why and for how long, or what keeps it from voting
	// again: see [WithRestartGuard] and [WithClockGuard].
	NodeQuarantined = EventKind(fault.NodeQuarantined)
	// NodeAdmitted: a node that was in quarantine votes again.
	NodeAdmitted = EventKind(fault.NodeAdmitted)
	// NodeLimited: the node's user may not run scripts, and the server has no commands
	// that replace them. Or may not look for deadlocks, or trim counters of fences: they stay and
	// take memory. Err says what does not work there, and what to allow. A node without
	// scripts is asked again once a second while it is used.
	NodeLimited = EventKind(fault.NodeLimited)
	// HooksLost: calls of [Hooks] were left out, because one of them has not returned for long, and
	// too many wait. Err is a [*HookError], and says how many since the last such event. There is at
	// most one a second.
	HooksLost = EventKind(fault.HooksLost)
	// HookPanicked: a function of [Hooks], [OnEvent] or [OnRenewal] has panicked, and the Locker goes
	// on. Err is a [*HookError], with what it has panicked with, and where.
	HookPanicked = EventKind(fault.HookPanicked)
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
	// Lasted is how long the node had been in the state that it leaves: of NodeUp down, of NodeDown
	// up, of NodeAdmitted in quarantine. 0: it was in none, or the event is no change of state.
	Lasted time.Duration
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
