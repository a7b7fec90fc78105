package node

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A nature is what a node is, by its last probe and by its answers since. Each probe replaces it as a whole.
//
// A node is fit to vote if it is a master, shares its server with no other node, and does not evict keys.
// All of this may change while the node is up: by a setting at run time, or by a name that leads to another
// server when the client makes its next connection. So a batch asks again once a second, behind its votes:
// the votes of an unfit node do not count. A batch that is sent again after a broken connection always asks.
type nature struct {
	unfit     error              // why the node has no votes, until the next probe
	due       clockdrift.Instant // the next question about fitness
	unchecked bool               // the user may not ask for fitness
	evicts    bool               // the node evicts keys, and the user was told

	dialect  protocol.Dialect
	relearns clockdrift.Instant // the dialect is not asked for again before
	lacked   bool               // the node refused a command since, or lacks one that was needed

	cluster bool // a Redis Cluster
	apart   bool // several keys in one command are refused

	muted     bool  // announcements of releases are refused
	unasked   bool  // nobody has asked yet how many listen
	listeners int64 // how many Lockers waited when a release was last announced; ours counts
}

// fitnessPeriod is the time between two questions about fitness.
const fitnessPeriod = time.Second

// unchecked words a node's refusal to tell about itself.
func unchecked(i int, err error) error {
	return fmt.Errorf("%w: without INFO %s nobody checks that this is a master of its own that keeps its keys: %s", err, protocol.AskFitness[i].Args[1], fault.Without(err, "info"))
}

// OnFitness reads a node's answers about its fitness. The error is why the node has no votes: then it is
// down until the next probe, which fails again if nothing has changed.
func (n *Node) OnFitness(replies []driver.Reply, sent clockdrift.Instant) error {
	var forbidden, unfit error
	for i, reply := range replies {
		switch err := reply.Err(); {
		case err == nil:
		case protocol.Answers(err):
			forbidden = unchecked(i, err)
		default:
			unfit = cmp.Or(unfit, fault.Advise(err))
		}
	}
	f := protocol.ReadFacts(replies)
	reborn, err := n.identify(&f)
	evicting := f.Evicting()
	n.mu.Lock()
	if forbidden != nil {
		n.note(fault.NodeUnchecked, forbidden)
	}
	if evicting != nil && n.set.EvictingOK {
		if !n.nature.evicts {
			n.note(fault.NodeEvicts, evicting)
		}
		n.nature.evicts, evicting = true, nil
	}
	n.nature.unchecked = forbidden != nil
	n.nature.unfit = cmp.Or(f.Replica(), err, evicting, unfit)
	if reborn {
		n.health.reborn = sent
	}
	unfit = n.nature.unfit
	n.mu.Unlock()
	switch {
	case unfit != nil:
		n.fails(unfit)
	case reborn: // the subscription, and other connections, may be left at the old server
		n.renew(sent)
	}
	n.Emit()
	return unfit
}

// identify notes which server the node is, and reports whether another server was there before. It fails
// where another node is the same server. The node that told this server first keeps its vote, and is probed
// again, for the two may have changed places: so this node's server is unknown from here on, too. The first
// of these probes goes over a new connection.
func (n *Node) identify(f *protocol.Facts) (reborn bool, err error) {
	s := n.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.RunID == "" {
		return false, nil
	}
	n.Server.Store(uint32(maphash.String(s.seed, f.RunID)) | 1) //nolint:gosec // any of the bits will do
	before := s.runs[n.Index]
	for i, other := range s.runs {
		if i != n.Index && other == f.RunID {
			s.runs[n.Index] = ""
			s.Go(func() { s.Nodes[i].probeAgain(before != "") })
			return false, fault.Passing(fmt.Errorf("%w: it is the same server as node %s, and would vote twice: give each node a server of its own",
				fault.ErrNode, s.Nodes[i].name))
		}
	}
	if before != f.RunID {
		s.runs[n.Index] = strings.Clone(f.RunID) // a copy, or the whole reply would stay in memory
	}
	return before != "" && before != f.RunID, nil
}

// asks says which questions a batch that leaves now carries: for the time once a second, and always if a
// gate reads the clock; for fitness once a second, and always after a broken connection. Batches that wait
// for a disk do not ask for the time: their replies come late.
func (n *Node) asks(now clockdrift.Instant, always, durable, again bool) (fit, time bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	due := now >= n.clock.due && !durable
	if time = always || !n.clock.silent && due; time {
		n.clock.due = now.Add(clockPeriod)
	}
	fit = (again || now >= n.nature.due) && !n.nature.unchecked && !n.nature.cluster
	if fit {
		n.nature.due = now.Add(fitnessPeriod)
	}
	return fit, time
}
