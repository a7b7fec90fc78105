package redlock

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A fitness is what makes a node fit to vote: it is a master, another server than the other
// nodes, and it does not evict keys. All of that may change while the node is up: a setting
// at run time, or a name that leads to another server when the client makes its next
// connection, of which it need not tell. So a node is asked again once a second, in a batch
// that goes out anyway and behind its votes: if it is found unfit, they do not count. A batch
// that is sent once more, because its connection broke, always asks.
type fitness struct {
	due       clockdrift.Instant // when it is asked again
	unchecked bool               // its user may not ask
	evicts    bool               // the user was told that it does
	unfit     error              // why it has no votes, until it was contacted again
}

// fitnessPeriod is how often a node is asked whether it is fit.
const fitnessPeriod = time.Second

// askFitness asks a node what it is. INFO takes one section a command before Redis 7. The
// three take a server 6µs and have 2,300 bytes (Redis 7.0).
var askFitness = []driver.Command{
	{Args: []any{"INFO", "server"}},
	{Args: []any{"INFO", "replication"}},
	{Args: []any{"INFO", "memory"}},
}

// facts are what a node has said of itself; "" is what it has not.
type facts struct {
	runID, mode, role, masterHost, masterPort, history, memory, policy string
}

// readFacts reads the replies to [askFitness].
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
			*field = cmp.Or(*field, value(reply.Str, name))
		}
	}
	return f
}

// replica says that the node is one, if it is.
func (f *facts) replica() error {
	if f.role == "" || f.role == "master" {
		return nil
	}
	return fmt.Errorf("%w: it is a replica (of %s:%s): give the master's address", ErrNode, f.masterHost, f.masterPort)
}

// evicting says that the node evicts keys, if it does.
func (f *facts) evicting() error {
	if f.memory == "0" || f.policy == "" || f.policy == "noeviction" {
		return nil
	}
	return fmt.Errorf("%w: it evicts keys when its memory is full, and live locks with them (maxmemory %s, maxmemory-policy %s): set maxmemory-policy noeviction",
		ErrNode, f.memory, f.policy)
}

// unchecked says that a node does not let itself be asked.
func (n *node) unchecked(i int, err error) Event {
	return Event{NodeUnchecked, n.name, fmt.Errorf(
		"%w: INFO %s is not allowed, so nobody checks that this is a master of its own that keeps its keys: allow +info", err, askFitness[i].Args[1])}
}

// heardFitness reads what a node says of itself behind a batch. The error is why it has no
// votes: then it is down until it was contacted, which says the same if nothing has changed.
func (n *node) heardFitness(replies []driver.Reply, sent clockdrift.Instant) error {
	var news []Event
	var unfit error
	for i, reply := range replies {
		switch err := reply.Err(); {
		case err == nil:
		case answers(err):
			news = append(news[:0], n.unchecked(i, err))
		default:
			unfit = cmp.Or(unfit, advised(err))
		}
	}
	f := readFacts(replies)
	reborn, err := n.identify(&f)
	evicting := f.evicting()
	unchecked := len(news) > 0
	n.mu.Lock()
	if evicting != nil && n.locker.options.evictingOK {
		if !n.fit.evicts {
			news = append(news, Event{NodeEvicts, n.name, evicting})
		}
		n.fit.evicts, evicting = true, nil
	}
	n.fit.unchecked = unchecked
	n.fit.unfit = cmp.Or(f.replica(), err, evicting, unfit)
	if reborn {
		n.health.reborn = sent
	}
	unfit = n.fit.unfit
	n.news = append(n.news, news...)
	n.mu.Unlock()
	if unfit != nil {
		n.fails(unfit)
	}
	n.announce()
	return unfit
}
