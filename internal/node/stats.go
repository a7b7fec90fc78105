package node

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/nodeclock"
)

// Stats are the state of a node at one moment.
type Stats struct {
	Asked       bool // a probe has asked the node
	Up          bool
	Quarantined bool          // a gate keeps it from voting
	For         time.Duration // since the last change of Up or Quarantined
	Left        time.Duration // of the quarantine, as far as known

	Queue, InFlight     int // requests, batches
	Behind              int // requests behind another of their key
	Trip                time.Duration
	Offset              nodeclock.Bounds // of its wall clock to ours
	OffsetKnown         bool
	DriftLow, DriftHigh float64 // in parts per million
	DriftKnown          bool
	Muted, Limited      bool
}

// Stats returns the state of the node.
func (n *Node) Stats() Stats {
	fails := n.Fails()
	now, wall := n.set.Clock.Now(), time.Now()
	left := n.gates.Left(now)
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Stats{
		Asked: n.health.state != fresh, Up: n.health.state == up, Quarantined: n.health.shut != 0, Left: left,
		Queue: n.pending(), Behind: n.behind, Trip: n.channels[0].window.trip(), Muted: n.nature.muted || fails, Limited: n.nature.dialect.Limits() != nil,
	}
	switch since := max(n.health.since, n.health.shut); {
	case s.Up:
		s.For = now.Sub(since)
	case s.Asked:
		s.For = now.Sub(n.health.since)
	}
	for i := range n.channels {
		s.InFlight += n.channels[i].out
	}
	if offset, ok := n.clock.estimator.Offset(now); ok {
		ours := time.Duration(wall.UnixNano() - int64(now))
		s.Offset, s.OffsetKnown = nodeclock.Bounds{Low: offset.Low - ours, High: offset.High - ours}, true
	}
	s.DriftLow, s.DriftHigh, s.DriftKnown = n.clock.estimator.Drift()
	return s
}
