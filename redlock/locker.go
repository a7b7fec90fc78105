package redlock

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/deadlock"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A Locker takes locks on a fixed set of nodes. Make one with [New] and share it:
// it is safe for concurrent use, and callers at the same time share its batches.
type Locker struct {
	options lockerOptions
	clock   *clockdrift.Clock
	board   *quorum.Board // what is asked of the nodes

	hooks      Hooks // all of them
	watched    bool  // some of them are about locks
	teller     teller
	defaultLog func() Hooks // for news without a hook: one, for its bounds

	met      atomic.Bool  // the clocks of a quorum are known
	name     string       // in the lines of keys
	waits    atomic.Int64 // of those who wait for several keys: the number of the last
	acquires atomic.Int64 // so many are under way
	waiting  atomic.Int64 // so many of these wait
	holds    holds
	site     waiting.Site // of its lines and pools
	lines    waiting.Lines
	pools    pools
	room     waiting.Room       // for first tries
	detector *deadlock.Detector // nil: it looks for none

	closing chan struct{}
	once    sync.Once
	quiet   time.Time // hooks are to be told of all until then
	failure error     // of Close, but for hooks
	hush    sync.Once
	outcome error              // of Close
	kill    context.CancelFunc // ends the context that all batches descend from
	work    crew
}

// A crew is the goroutines of a Locker. Once join is called, start refuses: a waiter may want to
// subscribe at the moment of Close.
type crew struct {
	mu     sync.Mutex
	over   bool
	joined sync.WaitGroup
}

// start runs do in a goroutine, and reports false if it does not.
func (c *crew) start(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.joined.Go(do)
	}
	return !c.over
}

// join waits until all have ended.
func (c *crew) join() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.joined.Wait()
}

// New returns a Locker on the nodes, which an adapter such as driver/goredis makes from clients or URLs. It
// sends nothing: a node is probed when it is first used. A minority that is down or unfit does not show in any
// result: see [Locker.Check] and [Hooks].
//
// Nodes must be independent masters: neither replicas of each other nor parts of one cluster. N nodes survive
// the loss of (N−1)/2, rounded down, so an odd number is best. Make one Locker for a program, and not for each
// request: a new one knows nothing of the nodes yet. A Locker that is not used has no goroutines after a few
// seconds, but its drivers' connections stay open until [Locker.Close]. Several Lockers may share nodes: the
// last one to be closed closes their drivers.
func New(nodes []driver.Node, options ...Option) (*Locker, error) {
	o := defaults()
	if err := apply(options, func(option Option) { option.locker(&o) }); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.roundUp()
	if err := checkNodes(nodes); err != nil {
		return nil, err
	}
	if o.clock == nil {
		o.clock = clockdrift.New()
	}
	l := &Locker{
		options: o,
		clock:   o.clock,
		closing: make(chan struct{}),

		defaultLog: sync.OnceValue(func() Hooks { return LogTo(nil) }),
	}
	l.hooks, l.watched = join(o.hooks)
	c := l.nodeConfig(len(nodes))
	if l.hooks.Batch != nil {
		c.Sent = l.sent
	}
	c.Life, l.kill = context.WithCancel(context.Background())
	l.board = quorum.NewBoard(quorum.Config{
		NodeTimeout: l.options.timeout, Fences: o.fences, ReadAge: o.longest / 2, Closing: l.closing,
	}, node.NewSet(c, nodes))
	l.site = waiting.Site{Set: l.board.Set, Closing: l.closing, Tries: make(chan struct{}, waiting.MaxTries)}
	l.lines = waiting.Lines{Site: &l.site, Host: host{l}}
	l.room = waiting.Room{Clock: l.clock, Batch: node.MaxBatch, Closing: l.closing, Trip: func() time.Duration { return l.board.Trip() + o.durability().Wait() }}
	l.name = l.board.Random.Nonce()
	if o.detects {
		l.detector = l.newDetector()
	}
	for _, n := range nodes {
		users.enter(n.Driver)
		openOn.enter(n.Name)
	}
	return l, nil
}

// nodeConfig is the configuration of the Locker's nodes.
func (l *Locker) nodeConfig(size int) node.Config {
	o := &l.options
	majority := size/2 + 1
	c := node.Config{
		Clock: l.clock, Random: o.random, Jitter: o.jitter, Go: l.work.start,
		Emit: func(e fault.Event) {
			l.emit(Event{Kind: EventKind(e.Kind), Node: e.Node, Err: e.Err, Time: e.Time, Lasted: e.Lasted})
		},
		Owe:     func(change int) { l.board.Keys.Await(change) },
		Timeout: o.timeout(o.acquire.ttl), TTL: o.acquire.ttl, Drift: o.drift, Prefix: o.prefix, Quorum: majority,
		EvictingOK: o.evictingOK, NeedsTime: o.fences, Durability: o.durability(), ClockGuard: o.clockLongest,
	}
	if o.guards {
		c.Restarts = gate.NewRestarts(memory.Settings{Longest: o.longest, NodeSet: o.nodeSet, Size: size}, o.prefix, l.clock)
	}
	return c
}

func checkNodes(nodes []driver.Node) error {
	if len(nodes) == 0 {
		return &OptionError{"nodes", "there are none: give the clients of an odd number of masters"}
	}
	for i, n := range nodes {
		switch {
		case n.Driver == nil:
			return &OptionError{"nodes", fmt.Sprintf("%d (%q) has no driver", i+1, n.Name)}
		case n.Name == "":
			return &OptionError{"nodes", fmt.Sprintf("%d has no name: give its address", i+1)}
		}
		for j, other := range nodes[:i] {
			if n.Name == other.Name || same(n.Client, other.Client) || same(n.Driver, other.Driver) {
				return &OptionError{"nodes", fmt.Sprintf("%d (%s) and %d (%s) are the same server, which would vote twice: give each node a server of its own",
					j+1, other.Name, i+1, n.Name)}
			}
		}
	}
	return nil
}

// same reports whether two clients are one.
func same(a, b any) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() &&
		reflect.TypeOf(a).Kind() == reflect.Pointer && a == b
}

// String shows how many nodes there are, not the tokens of the locks.
func (l *Locker) String() string { return fmt.Sprintf("locker on %d nodes", len(l.board.Nodes)) }

// GoString is String, so that no format shows tokens.
func (l *Locker) GoString() string { return l.String() }

func (l *Locker) closed() bool { return l.board.Closed() }
