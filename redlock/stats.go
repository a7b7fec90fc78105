package redlock

import (
	"iter"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/node"
)

// Stats is what a [Locker] has and does at one moment; two numbers may be of moments a little
// apart.
type Stats struct {
	Locks         int         // locks of all kinds; one that was lost and not released counts for up to 1s more
	Acquires      int         // acquires that are under way: see [WithMaxAcquires]
	Waiting       int         // of these, those that wait for a lock
	Owed          int         // clean-ups that wait to be tried again: one for each token and node that may still have it
	Subscriptions int         // nodes that are listened to for announcements of releases
	Nodes         []NodeStats // in the order given to [New]
	Hooks         HookStats
}

// HookStats are the calls of [Hooks] that the Locker makes in a goroutine of its own.
type HookStats struct {
	Queued int   // calls that are under way, or wait for one before them to return; 0: all is told
	Lost   int64 // calls that were left out so far, because too many waited: see [HooksLost]
	Panics int64 // calls so far that have panicked: see [HookPanicked]
}

// NodeStats is what a Locker knows of one node.
type NodeStats struct {
	Name  string
	State Health
	Since time.Time // when it came to that; zero: it was never asked

	Queue     int           // requests that wait to leave
	Behind    int           // further requests that wait for another one of their key, which has no answer from the node yet
	InFlight  int           // batches that are out
	RoundTrip time.Duration // the smallest of late; 0: not known

	ClockKnown bool              // its clock was read: Offset says something
	Offset     clockdrift.Bounds // its wall clock is ahead of this machine's by something between the two
	DriftKnown bool              // its clock was read for long enough: DriftLow and DriftHigh say something
	DriftLow   float64           // its clock runs faster than this machine's at least by this part of the time: 1e-6 is 1 µs a second
	DriftHigh  float64           // at most by this part

	QuarantineLeft time.Duration // for how long it does not vote, at least: see [WithRestartGuard] and [WithClockGuard]; 0: it does, or nobody knows
	Muted          bool          // no announcements of releases arrive from it: see [NodeMuted]
	Limited        bool          // its user may not run scripts: see [NodeLimited]
}

// Health is the state of a node.
type Health uint8

// The states of a node.
const (
	HealthUnknown     Health = iota // it was never asked, or the first question is out
	HealthUp                        // it answers, and may vote
	HealthDown                      // it does not answer, or is unfit: see [NodeDown]
	HealthQuarantined               // it answers, and does not vote: see [NodeQuarantined]
)

func (h Health) String() string { return fault.Name(h, "unknown", "up", "down", "quarantined") }

// Stats returns what the Locker has and does at the moment. It waits for no node, and may be called
// at any time, also by hooks and of a Locker that is closed. A node that is down is asked again
// behind it, at most every 5s.
func (l *Locker) Stats() Stats {
	s := Stats{
		Locks: l.holds.count(), Acquires: int(l.acquires.Load()), Waiting: int(l.waiting.Load()), Owed: l.board.Outstanding(),
		Hooks: l.teller.known(), Nodes: make([]NodeStats, len(l.board.Nodes)),
	}
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
		Name: name, Queue: n.Queue, Behind: n.Behind, InFlight: n.InFlight, RoundTrip: n.Trip,
		ClockKnown: n.OffsetKnown, Offset: n.Offset,
		DriftKnown: n.DriftKnown, DriftLow: n.DriftLow / million, DriftHigh: n.DriftHigh / million,
		QuarantineLeft: n.Left, Muted: n.Muted, Limited: n.Limited,
	}
	switch {
	case !n.Asked:
		return s
	case !n.Up:
		s.State = HealthDown
	case n.Quarantined:
		s.State = HealthQuarantined
	default:
		s.State = HealthUp
	}
	s.Since = now.Add(-n.For).Round(0)
	return s
}

// Locks yields the locks of all kinds that this Locker holds, in no order, and that are valid when
// they are yielded.
func (l *Locker) Locks() iter.Seq[LockInfo] {
	return func(yield func(LockInfo) bool) {
		for _, lock := range l.holds.all() {
			if lock.Valid() && !yield(lock.public) {
				return
			}
		}
	}
}
