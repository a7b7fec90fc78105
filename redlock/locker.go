package redlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/gate"
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

	hooks   Hooks // all of them
	watched bool  // some of them are about locks
	teller  teller

	met       atomic.Bool  // the clocks of a quorum are known
	inLineAs  string       // its name where it stands in a key's line; "": it does not
	waitClock atomic.Int64 // the nodes' clocks against ours, in microseconds: see [Locker.told]
	holds     holds
	renewals  schedule
	lines     waiting.Lines
	slots     semaphores
	tries     chan struct{} // holds one for each try of a waiter
	detector  *detector     // of deadlocks; nil: it looks for none
	blind     []atomic.Bool // by node: it was reported that it keeps no edges

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

// New returns a Locker on the nodes, which an adapter such as driver/goredis makes from
// clients or URLs. It sends nothing: a node is probed when it is first used. A minority that
// is down or unfit does not show in any result, because locks work without it: see [OnEvent].
//
// Several Lockers may share nodes: the last one to be closed closes their drivers. All clients
// of a key need the same nodes, database number and key prefix, or their locks are independent.
//
// Nodes must be independent masters: neither replicas of each other nor parts of one cluster.
// N is 1 or more; N nodes survive the loss of (N−1)/2, rounded down, so an odd number is best.
// One node is the plain single-node lock, which survives no loss.
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
		tries:   make(chan struct{}, waiting.MaxTries),
		blind:   make([]atomic.Bool, len(nodes)),
		closing: make(chan struct{}),
	}
	l.hooks, l.watched = join(o.hooks)
	l.teller.events = l.hooks.Node
	l.renewals.clock = l.clock
	l.renewals.wake = func() { l.work.start(l.renewals.begin) }
	c := l.nodeConfig(len(nodes))
	if l.hooks.Batch != nil {
		c.Sent = l.sent
	}
	c.Life, l.kill = context.WithCancel(context.Background())
	l.board = quorum.NewBoard(quorum.Config{
		NodeTimeout: l.options.timeout, Fences: o.fences, ReadAge: o.guard / 2,
	}, node.NewSet(c, nodes))
	if o.acquire.kind == inLine {
		l.inLineAs = l.board.Random.Nonce()
	}
	if o.detects {
		l.detector = &detector{
			Locker: l, name: l.board.Random.Nonce(),
			waits: make(map[*nestedWait]struct{}), beside: make(map[string]*edgeSet), told: make(chan struct{}, 1), dated: make(chan struct{}, 1),
		}
	}
	for _, n := range nodes {
		users.enter(n.Driver)
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
		EvictingOK: o.evictingOK, NeedsTime: o.fences, Durability: o.durability(), ClockGuard: o.clockGuard,
	}
	if o.guard > 0 {
		r := &gate.Restarts{
			Longest: o.guard, NodeSet: o.nodeSet, Size: size, Quorum: majority, Prefix: o.prefix, Drift: o.drift,
			Clock: l.clock, Random: o.random,
		}
		c.Restarts = r.Init()
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

// String shows how many nodes there are. It does not show the tokens of the locks.
func (l *Locker) String() string { return fmt.Sprintf("locker on %d nodes", len(l.board.Nodes)) }

// GoString is String, so that no format shows tokens.
func (l *Locker) GoString() string { return l.String() }

// Close ends the contexts of all held locks with the cause [ErrClosed], releases them, and ends
// the Locker's goroutines and waits for them. It waits until a quorum has confirmed every
// release, also those of failed attempts, for a bounded time (see [WithCloseTimeout]); the other
// nodes get no more than one node time-out. Keys at a minority of the nodes keep nobody else out,
// and expire by their TTL. Close closes the clients that the adapters made themselves, unless
// another open Locker of this process has the same nodes, and never one that was given to them.
//
// It also waits until [Hooks] were told of all that has happened, within the same time; called by a
// hook, it does not wait for hooks.
//
// The error is or wraps a [*CloseError] if a quorum did not confirm all releases: it names
// the keys and the nodes. It is or wraps a [*HookError] if a hook has not returned. Further calls
// return the same.
func (l *Locker) Close() error {
	l.once.Do(func() {
		l.quiet = time.Now().Add(max(l.options.cleanup, lastCalls))
		l.failure = l.shut()
	})
	if calledByHook() {
		return l.failure
	}
	l.hush.Do(func() { l.outcome = errors.Join(l.failure, l.teller.drain(max(time.Until(l.quiet), lastCalls))) })
	return l.outcome
}

// lastCalls is the least time that hooks get to be told of all.
const lastCalls = time.Second

func (l *Locker) shut() error {
	l.board.Close()
	close(l.closing)
	l.renewals.stop()
	for _, lock := range l.holds.close() {
		lock.quit()
	}
	calm := l.board.Keys.Shut()
	timeout := l.options.timeout(l.options.acquire.ttl)
	defer time.AfterFunc(timeout-timeout/8, l.board.Keys.Hurry).Stop() // what is below takes time, too
	bound := time.NewTimer(l.options.cleanup)
	defer bound.Stop()
	select {
	case <-calm:
	case <-bound.C:
	}
	l.kill()
	l.board.StopCleanups()
	for _, n := range l.board.Nodes {
		n.Close()
	}
	if err := l.join(); err != nil {
		for _, n := range l.board.Nodes {
			users.leave(n.Driver) // another Locker may close it
		}
		return errors.Join(err, l.unreleased())
	}
	return errors.Join(append(l.closeDrivers(), l.unreleased())...)
}

// unreleased names the keys whose release no quorum has confirmed.
func (l *Locker) unreleased() error {
	nodes := l.board.Unreleased()
	if len(nodes) == 0 {
		return nil
	}
	err := &CloseError{}
	for _, key := range slices.Sorted(maps.Keys(nodes)) {
		err.Keys = append(err.Keys, UnreleasedKey{key, nodes[key]})
	}
	return err
}

// joinTime is how long drivers get to return from calls whose context has ended: 20 times their
// contract's 50ms.
const joinTime = time.Second

// join waits for all goroutines.
func (l *Locker) join() error {
	joined := make(chan struct{})
	go func() {
		l.work.join()
		close(joined)
	}()
	timer := time.NewTimer(joinTime)
	defer timer.Stop()
	select {
	case <-joined:
		return nil
	case <-timer.C:
		return fmt.Errorf("redlock: close: a driver did not return within %v of the end of its context, so its client stays open: it breaks the contract of package driver", joinTime)
	}
}

// closeDrivers closes the drivers' own clients, all at once: with a silent node it may take 1s.
func (l *Locker) closeDrivers() []error {
	failures := make([]error, len(l.board.Nodes))
	var group errgroup.Group
	for i, n := range l.board.Nodes {
		n.StopTimers()
		if c := users.leave(n.Driver); c != nil {
			group.Go(func() error {
				if err := c.Close(); err != nil {
					failures[i] = fmt.Errorf("redlock: close node %s: %w", n.Name(), err)
				}
				return nil // the others are closed as well, and each failure is reported
			})
		}
	}
	_ = group.Wait()
	return failures
}

// users counts the open Lockers of each driver that has something to close: several may
// share nodes, and the last one closes them.
var users = driverUsers{of: make(map[driver.Driver]int)}

type driverUsers struct {
	mu sync.Mutex
	of map[driver.Driver]int
}

// enter notes that a Locker uses d.
func (u *driverUsers) enter(d driver.Driver) {
	if _, ok := d.(io.Closer); ok && reflect.ValueOf(d).Comparable() {
		u.mu.Lock()
		u.of[d]++
		u.mu.Unlock()
	}
}

// leave notes that a Locker uses d no more, and returns the driver to close, or nil.
func (u *driverUsers) leave(d driver.Driver) io.Closer {
	c, ok := d.(io.Closer)
	if !ok || !reflect.ValueOf(d).Comparable() {
		return c
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[d]--; u.of[d] > 0 {
		return nil
	}
	delete(u.of, d)
	return c
}

func (l *Locker) closed() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}
