package redlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
)

// A Locker takes locks on a fixed set of nodes. Make one with [New] and share it:
// it is safe for concurrent use, and callers at the same time share its batches.
type Locker struct {
	options lockerOptions
	timeout time.Duration // a node's, for an operation with the default TTL
	nodes   []*node
	quorum  int
	// durability is what votes need besides the nodes' grants.
	durability durability
	// usualTTL is the default TTL as servers take it, boxed once.
	usualTTL any
	clock    *clockdrift.Clock
	time     nodeTime

	fences    fences
	fenceIdle any         // how long a counter is kept, as servers take it, boxed once
	met       atomic.Bool // a quorum has been reached, and has told its clocks
	guarding  []driver.Command

	lanes  lanes
	debts  debts
	holds  holds
	queues queues
	tries  chan struct{} // holds one for each try of a waiter
	spent  spentTokens
	idents identities

	closing chan struct{}
	once    sync.Once
	failure error           // of Close
	life    context.Context //nolint:containedctx // all batches descend from it
	kill    context.CancelFunc
	work    sync.WaitGroup // senders
}

// New returns a Locker on the nodes, which an adapter such as driver/goredis makes
// from clients or URLs. It sends nothing: nodes are asked what they are when they are
// first used. A minority that is down or unfit does not show in any result, for locks
// work without it: see [WithEvents].
//
// Nodes must be masters of their own: neither replicas of each other nor parts of one
// cluster. Any number from 1 up will do; N nodes bear the loss of (N−1)/2, rounded
// down, so an odd number is best. One node is the plain single-node lock, with no loss borne.
func New(nodes []driver.Node, options ...Option) (*Locker, error) {
	o := defaults()
	for i, option := range options {
		if option == nil {
			return nil, &OptionError{"options", fmt.Sprintf("option %d is nil", i+1)}
		}
		option.locker(&o)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := checkNodes(nodes); err != nil {
		return nil, err
	}
	if o.clock == nil {
		o.clock = clockdrift.New()
	}
	l := &Locker{
		options: o,
		timeout: o.timeout(o.acquire.ttl),
		quorum:  len(nodes)/2 + 1,
		clock:   o.clock,

		durability: o.durability(),

		closing: make(chan struct{}),
	}
	l.usualTTL = strconv.FormatInt(o.acquire.ttl.Milliseconds(), 10)
	l.guarding = guardedBy(&o)
	l.fenceIdle = strconv.FormatInt(o.fenceIdle.Milliseconds(), 10)
	l.tries = make(chan struct{}, maxTries)
	l.lanes.byKey = make(map[string]*lane)
	l.debts.lanes = &l.lanes
	l.life, l.kill = context.WithCancel(context.Background())
	l.idents.of = make([]string, len(nodes))
	for i, n := range nodes {
		l.nodes = append(l.nodes, newNode(l, i, n))
	}
	return l, nil
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

// Close ends the contexts of all held locks with the cause [ErrClosed], releases them,
// goes on with open clean-ups for a bounded time (see [WithCleanupBound]), and ends
// and waits for all that the Locker has started. It closes the clients that the
// adapters made themselves, and never one that was given to them.
//
// The error says what could not be released: such a key goes away by itself, at the
// latest one TTL after its node is back. Further calls return the same.
func (l *Locker) Close() error {
	l.once.Do(func() { l.failure = l.shut() })
	return l.failure
}

func (l *Locker) shut() error {
	close(l.closing)
	for _, lock := range l.holds.close() {
		lock.quit()
	}
	calm := l.lanes.calm()
	bound := time.NewTimer(l.options.cleanup)
	defer bound.Stop()
	select {
	case <-calm:
	case <-bound.C:
	}
	l.debts.stop()
	l.kill()
	for _, n := range l.nodes {
		n.close()
	}
	if err := l.join(); err != nil {
		return errors.Join(err, l.debts.undone())
	}
	return errors.Join(append(l.closeDrivers(), l.debts.undone())...)
}

// joinTime is how long drivers get to return from calls whose context has ended: many
// times what their contract allows.
const joinTime = time.Second

// join waits for the senders.
func (l *Locker) join() error {
	joined := make(chan struct{})
	go func() {
		l.work.Wait()
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

// closeDrivers closes what the drivers have of their own, all at once: to a silent
// node that may take a second.
func (l *Locker) closeDrivers() []error {
	failures := make([]error, len(l.nodes))
	var group sync.WaitGroup
	for i, n := range l.nodes {
		for i := range n.lines {
			n.lines[i].ages.stop()
		}
		if c, ok := n.driver.(io.Closer); ok {
			group.Go(func() {
				if err := c.Close(); err != nil {
					failures[i] = fmt.Errorf("redlock: close node %s: %w", n.name, err)
				}
			})
		}
	}
	group.Wait()
	return failures
}

func (l *Locker) closed() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}
