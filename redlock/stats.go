package redlock

import (
	"iter"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
)

// Stats is the state of a [Locker] at one moment; two numbers may be of moments a little apart.
type Stats struct {
	OldestLock    time.Duration // the age of the oldest lock; 0: there is none
	Locks         int           // locks of all kinds; a lost lock that was not released counts for up to 1s more
	Acquires      int           // under way: see [WithMaxAcquires]
	Waiting       int           // acquires that wait for a lock
	Owed          int           // clean-ups to be tried again: one for each token and node that may still have it
	Subscriptions int           // nodes whose announcements of releases are listened to
	Nodes         []NodeStats   // in the order given to [New]
	// Hooks are the calls of [Hooks] in the Locker's own goroutine.
	Hooks struct {
		Queued int   // calls under way, or behind others; 0: all is told
		Lost   int64 // calls left out so far, because too many waited: a hook blocks, or is slow
		Panics int64 // calls so far that have panicked
	}
}

// NodeStats is a Locker's knowledge of a node.
type NodeStats struct {
	Name string
	// State is "unknown", never asked, or the first question is out; "up", the node answers, and may vote;
	// "down", it does not, or is unfit (see [NodeDown]); or "quarantined" (see [NodeQuarantined]).
	State string
	Since time.Time // the last change of State; zero: never asked

	Queue     int           // requests that wait to leave
	Behind    int           // further requests that wait for another one of their key, without an answer from the node yet
	InFlight  int           // batches that are out
	RoundTrip time.Duration // the smallest of late; 0: not known

	ClockKnown            bool          // its clock was read: the offsets say something
	OffsetLow, OffsetHigh time.Duration // its wall clock is ahead of this machine's by something between the two
	DriftKnown            bool          // its clock was read for long enough: the drifts say something
	DriftLow, DriftHigh   float64       // its clock runs faster than this machine's by something between these parts of the time: 1e-6 is 1 µs a second

	QuarantineLeft time.Duration // for how long the node does not vote, at least: see [WithRestartGuard] and [WithClockGuard]; 0: it votes, or nobody knows
	Muted          bool          // announcements of releases do not arrive: see [NodeMuted]
	Limited        bool          // its user may not run scripts: see [NodeLimited]
}

// Stats returns the state of the Locker. It waits for no node, and may be called at any time, also by hooks
// and after Close. A down node is asked again behind it, at most every 5s.
func (l *Locker) Stats() Stats {
	s := Stats{
		Acquires: int(l.acquires.Load()), Waiting: int(l.waiting.Load()), Owed: l.board.Outstanding(),
		Nodes: make([]NodeStats, len(l.board.Nodes)),
	}
	l.teller.count(&s)
	s.Locks, s.OldestLock = l.holds.count(l.clock.Now())
	now := time.Now()
	for i, n := range l.board.Nodes {
		s.Subscriptions += int(n.Own())
		s.Nodes[i] = nodeStats(n.Name(), n.Stats(), now)
		n.Revisit()
	}
	return s
}

// nodeStats are those of a node at the moment.
func nodeStats(name string, n node.Stats, now time.Time) NodeStats {
	const million = 1e6
	s := NodeStats{
		Name: name, State: "unknown", Queue: n.Queue, Behind: n.Behind, InFlight: n.InFlight, RoundTrip: n.Trip,
		ClockKnown: n.OffsetKnown, OffsetLow: n.Offset.Low, OffsetHigh: n.Offset.High,
		DriftKnown: n.DriftKnown, DriftLow: n.DriftLow / million, DriftHigh: n.DriftHigh / million,
		QuarantineLeft: n.Left, Muted: n.Muted, Limited: n.Limited,
	}
	switch {
	case !n.Asked:
		return s
	case !n.Up:
		s.State = "down"
	case n.Quarantined:
		s.State = "quarantined"
	default:
		s.State = "up"
	}
	s.Since = now.Add(-n.For).Round(0)
	return s
}

// Locks yields the valid locks of this Locker, of all kinds.
func (l *Locker) Locks() iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		for _, lock := range l.holds.all() {
			if lock := lock.handedOut(); lock != nil && lock.Valid() && !yield(lock) {
				return
			}
		}
	}
}
