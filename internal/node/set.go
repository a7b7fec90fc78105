package node

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/nodeclock"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Set is the nodes of a Locker, with their common state.
type Set struct {
	Config
	Nodes []*Node

	// The median of the nodes' clocks, as its offset to Clock.
	offset atomic.Int64
	known  atomic.Bool

	// Which servers they are: two nodes that tell one run_id are one server under two addresses.
	mu   sync.Mutex
	runs []string // by node
	seed maphash.Seed
}

// A Config is a Locker's settings for its nodes.
type Config struct {
	Clock   *clockdrift.Clock
	Random  protocol.Random
	Jitter  func(bound time.Duration) time.Duration // a random time below the bound
	Life    context.Context                         //nolint:containedctx // all batches descend from it
	Go      func(run func()) bool                   // starts a goroutine of the Locker, unless that is over
	Emit    func(fault.Event)
	Sent    func(Sent)       // is told of each sending of a batch; nil: nobody is
	Back    func(n *Node)    // is told of a node that answers, for the first time or again; nil: nobody is
	Owe     func(change int) // counts announcements that Close waits for
	Timeout time.Duration    // of a node, for an operation with the default TTL
	TTL     time.Duration    // the default one
	Drift   float64
	Prefix  string
	Quorum  int

	EvictingOK bool // nodes that evict keys may vote
	NeedsTime  bool // the nodes' clocks are followed: see [Set.Microseconds]

	Durability *gate.Durability // nil: no gate
	Restarts   *gate.Restarts   // nil: no gate
	ClockGuard time.Duration    // the longest TTL; 0: no gate
}

// NewSet returns the nodes, and sends nothing.
func NewSet(c Config, nodes []driver.Node) *Set {
	s := &Set{Config: c, runs: make([]string, len(nodes)), seed: maphash.MakeSeed()}
	for i, n := range nodes {
		s.Nodes = append(s.Nodes, newNode(s, i, n))
	}
	return s
}

// HandsOver reports whether a quorum of the nodes can give a key from one token to another.
func (s *Set) HandsOver() bool {
	can := 0
	for _, n := range s.Nodes {
		if n.HandsOver() {
			can++
		}
	}
	return can >= s.Quorum
}

// KeepLines reports whether all nodes keep lines, by the last probes.
func (s *Set) KeepLines() bool {
	return !slices.ContainsFunc(s.Nodes, func(n *Node) bool { d := n.Dialect(); return d.Scriptless || d.Lineless })
}

// Refuses says why too few of the nodes can take op, by what is known of them; nil: a quorum can.
func (s *Set) Refuses(op *protocol.Op) (why error) {
	can := 0
	for _, n := range s.Nodes {
		if err := n.Dialect().Refuses(op, false); err != nil {
			why = fmt.Errorf("%s: %w", n.name, err)
			continue
		}
		can++
	}
	if can >= s.Quorum {
		return nil
	}
	return why
}

// synchronize finds the median of the nodes' clocks again. One reading at a time: the median of fewer clocks must not
// replace a later one.
func (s *Set) synchronize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	offsets := s.offsets(s.Clock.Now())
	if median, _ := nodeclock.Median(offsets); len(offsets) >= s.Quorum {
		s.offset.Store(int64(median.Mid()))
		s.known.Store(true)
	}
}

// offsets are those of the clocks that were read.
func (s *Set) offsets(now clockdrift.Instant) []nodeclock.Bounds {
	offsets := make([]nodeclock.Bounds, 0, len(s.Nodes))
	for _, n := range s.Nodes {
		n.mu.Lock()
		if offset, ok := n.clock.estimator.Offset(now); ok {
			offsets = append(offsets, offset)
		}
		n.mu.Unlock()
	}
	return offsets
}

// ClocksAgree reports whether the clocks that were read agree so well that no other one can make a
// difference to their median.
func (s *Set) ClocksAgree() bool {
	low, high := time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for _, offset := range s.offsets(s.Clock.Now()) {
		low, high = min(low, offset.Mid()), max(high, offset.Mid())
	}
	return high < low || high-low < time.Second
}

// Microseconds is the time since 1970 by the median of the nodes' clocks, or by our own where too
// few nodes have told theirs.
func (s *Set) Microseconds() int64 {
	if !s.known.Load() {
		return time.Now().UnixMicro()
	}
	return int64(s.Clock.Now().Add(time.Duration(s.offset.Load()))) / int64(time.Microsecond)
}

// Trip is the distance of the nodes: the round trip within which a quorum has answered, at its
// best; at first it is a guess.
func (s *Set) Trip() time.Duration {
	trips := make([]time.Duration, 0, len(s.Nodes))
	for _, n := range s.Nodes {
		if trip := n.Trip(); trip > 0 {
			trips = append(trips, trip)
		}
	}
	if len(trips) < s.Quorum {
		return time.Millisecond
	}
	slices.Sort(trips)
	return trips[s.Quorum-1]
}
