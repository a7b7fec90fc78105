package node

import (
	"cmp"
	"errors"
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

// AskFitness asks a node what it is. INFO takes one section a command before Redis 7. The three
// take a server 6µs and have 2,300 bytes (Redis 7.0).
var AskFitness = []driver.Command{
	{Args: []any{"INFO", "server"}},
	{Args: []any{"INFO", "replication"}},
	{Args: []any{"INFO", "memory"}},
}

// facts are what a node has said of itself; "" is what it has not.
type facts struct {
	runID, mode, role, masterHost, masterPort, history, memory, policy string
}

// readFacts reads the replies to [AskFitness].
func readFacts(replies []driver.Reply) (f facts) {
	for _, reply := range replies {
		if reply.Kind != driver.String {
			continue
		}
		for name, field := range map[string]*string{
			"run_id:": &f.runID, "redis_mode:": &f.mode,
			"role:": &f.role, "master_host:": &f.masterHost, "master_port:": &f.masterPort, "master_replid:": &f.history,
			"maxmemory:": &f.memory, "maxmemory_policy:": &f.policy,
		} {
			*field = cmp.Or(*field, protocol.Field(reply.Str, name))
		}
	}
	return f
}

// replica says that the node is one, if it is.
func (f *facts) replica() error {
	if f.role == "" || f.role == "master" {
		return nil
	}
	return fmt.Errorf("%w: it is a replica (of %s:%s): give the master's address", fault.ErrNode, f.masterHost, f.masterPort)
}

// evicting says that the node evicts keys, if it does.
func (f *facts) evicting() error {
	if f.memory == "0" || f.policy == "" || f.policy == "noeviction" {
		return nil
	}
	return fmt.Errorf("%w: it evicts keys when its memory is full, and live locks with them (maxmemory %s, maxmemory-policy %s): set maxmemory-policy noeviction",
		fault.ErrNode, f.memory, f.policy)
}

// unchecked says that a node does not let itself be asked.
func unchecked(i int, err error) error {
	return fmt.Errorf("%w: INFO %s is not allowed, so nobody checks that this is a master of its own that keeps its keys: allow +info", err, AskFitness[i].Args[1])
}

// answers reports whether a node that refused INFO may be ready for work all the same.
func answers(err error) bool {
	var reply *driver.ServerError
	return errors.As(err, &reply) && (reply.Code == "NOPERM" || reply.Code == "ERR")
}

// OnFitness reads what a node says of itself behind a batch. The error is why it has no votes:
// then it is down until the next probe, which says the same if nothing has changed.
func (n *Node) OnFitness(replies []driver.Reply, sent clockdrift.Instant) error {
	var forbidden, unfit error
	for i, reply := range replies {
		switch err := reply.Err(); {
		case err == nil:
		case answers(err):
			forbidden = unchecked(i, err)
		default:
			unfit = cmp.Or(unfit, fault.Advise(err))
		}
	}
	f := readFacts(replies)
	reborn, err := n.identify(&f)
	evicting := f.evicting()
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
	n.fitness.unfit = cmp.Or(f.replica(), err, evicting, unfit)
	if reborn {
		n.health.reborn = sent
	}
	unfit = n.fitness.unfit
	n.mu.Unlock()
	if unfit != nil {
		n.fails(unfit)
	}
	n.Emit()
	return unfit
}

// identify notes which server the node is, and reports whether it was another one before. The
// error is that another node is that server. The one that has told it first keeps its vote, and is
// asked again, for the two may have changed places: so this node is no more what it was, either.
func (n *Node) identify(f *facts) (reborn bool, err error) {
	s := n.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.runID == "" {
		return false, nil
	}
	n.Server.Store(uint32(maphash.String(s.seed, f.runID)) | 1) //nolint:gosec // any of the bits will do
	before := s.runs[n.Index]
	for i, other := range s.runs {
		if i != n.Index && other == f.runID {
			s.runs[n.Index] = ""
			s.Go(s.Nodes[i].probeAgain)
			return false, fmt.Errorf("%w: it is the same server as node %s, and would vote twice: give each node a server of its own",
				fault.ErrNode, s.Nodes[i].name)
		}
	}
	if before != f.runID {
		s.runs[n.Index] = strings.Clone(f.runID) // and not all that the node has said
	}
	return before != "" && before != f.runID, nil
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
