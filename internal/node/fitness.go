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

// A fitness is what makes a node fit to vote: it is a master, another server than the other nodes,
// and it does not evict keys. All of that may change while the node is up: a setting at run time,
// or a name that leads to another server when the client makes its next connection, of which it
// need not tell. So a node is asked again once a second, in a batch that goes out anyway and
// behind its votes: if it is found unfit, they do not count. A batch that is sent once more,
// because its connection broke, always asks.
type fitness struct {
	due       clockdrift.Instant // when it is asked again
	unchecked bool               // its user may not ask
	evicts    bool               // the user was told that it does
	unfit     error              // why it has no votes, until the next probe
}

// fitnessPeriod is how often a node is asked whether it is fit.
const fitnessPeriod = time.Second

// unchecked says that a node does not let itself be asked.
func unchecked(i int, err error) error {
	return fmt.Errorf("%w: without INFO %s nobody checks that this is a master of its own that keeps its keys: %s", err, protocol.AskFitness[i].Args[1], fault.Without(err, "info"))
}

// OnFitness reads what a node says of itself behind a batch. The error is why it has no votes:
// then it is down until the next probe, which says the same if nothing has changed.
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
		if !n.fitness.evicts {
			n.note(fault.NodeEvicts, evicting)
		}
		n.fitness.evicts, evicting = true, nil
	}
	n.fitness.unchecked = forbidden != nil
	n.fitness.unfit = cmp.Or(f.Replica(), err, evicting, unfit)
	if reborn {
		n.health.reborn = sent
	}
	unfit = n.fitness.unfit
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

// identify notes which server the node is, and reports whether it was another one before. The
// error is that another node is that server. The one that has told it first keeps its vote, and is
// asked again, for the two may have changed places: so this node is no more what it was, either. The
// first time that is done over a new connection.
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
		s.runs[n.Index] = strings.Clone(f.RunID) // and not all that the node has said
	}
	return before != "" && before != f.RunID, nil
}

// asks says what a batch that leaves now is to ask beside its requests: for the time once a
// second, and always if a gate wants it; whether the node is fit, once a second and always in a
// batch that is sent once more. A batch that waits for a disk tells little of the time, for its
// replies come late.
func (n *Node) asks(now clockdrift.Instant, always, durable, again bool) (fit, time bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	due := now >= n.clock.due && !durable
	if time = always || !n.clock.silent && due; time {
		n.clock.due = now.Add(clockPeriod)
	}
	fit = (again || now >= n.fitness.due) && !n.fitness.unchecked && !n.cluster
	if fit {
		n.fitness.due = now.Add(fitnessPeriod)
	}
	return fit, time
}
