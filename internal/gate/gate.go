// Package gate holds what may keep a node's grants from being votes: that the node was started
// anew and may have forgotten votes ([Restart]), that its clock was set forward ([Clock]), or
// that a vote is not safe on disk or on replicas yet ([Durable]). A Locker without gates runs
// none of this.
package gate

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Facts are what a node has told of itself at a probe.
type Facts struct {
	Cluster  bool  // it is a Redis Cluster
	History  bool  // it tells its master_replid
	Timeless error // why it does not tell its time; nil: it does
}

// A Sending is one sending of a batch that asks for votes.
type Sending struct {
	Sent, Received clockdrift.Instant
	Err            error              // why replies are missing
	Until          clockdrift.Instant // by when a durable vote is to be safe, however often it is sent
	Reading        Reading            // of the node's clock, in this sending
}

// A Verdict says whether grants are votes.
type Verdict struct {
	Doubt  error      // why not; nil: they are
	Closed bool       // nor will others be for a while, of which an event tells
	Shown  *Condition // what a look has shown of the node
	then   func()     // what is to be done now, without any mutex
}

// A Node is what the gates see of their node.
type Node interface {
	Name() string
	// Note queues an event, and Emit tells the user those that are queued.
	Note(kind fault.Kind, err error)
	Emit()
	// Beside asks the node beside its queues, for a node time-out at most.
	Beside(cmds []driver.Command) ([]driver.Reply, error)
	// Ask puts commands of the library's own in the node's queue. Then, if it is not nil, is
	// called with what came of them.
	Ask(op *protocol.Op, cmds []driver.Command, then func(p *protocol.Part, err error))
	// ReadClock reads the node's clock by itself.
	ReadClock() (Reading, error)
}

// Gates are what the grants of one node have to pass before they are votes. A batch is not atomic:
// between any two of its commands a node may forget what it had granted. So they ask behind every
// command that makes a vote. What the node has lost before shows there; what it loses afterwards is
// a vote that counted. They are safe for concurrent use.
type Gates struct {
	node Node
	// Those that are there, in the order in which they ask; the durable one judges last.
	durable *Durable
	clock   *Clock
	restart *Restart

	mu     sync.Mutex
	over   bool       // the node is being closed
	closed bool       // the user was told that the node does not vote
	told   *Condition // what was shown then, or since
}

// New returns the gates of a node. Those that are nil are not there.
func New(n Node, d *Durability, r *Restarts, c *Clock) *Gates {
	g := &Gates{node: n, clock: c}
	if d != nil {
		g.durable = &Durable{d, n}
	}
	if c != nil {
		c.gates = g
	}
	if r != nil {
		g.restart = &Restart{all: r, gates: g, node: n}
		r.nodes = append(r.nodes, g.restart)
	}
	return g
}

// Any reports whether there are gates.
func (g *Gates) Any() bool { return g.durable != nil || g.Strict() }

// Strict reports whether a vote counts only if it was under way for no longer than a node may
// take: what a gate has seen behind it speaks of that moment.
func (g *Gates) Strict() bool { return g.clock != nil || g.restart != nil }

// ReadsClock reports whether every batch of votes has to read the node's clock.
func (g *Gates) ReadsClock() bool { return g.clock != nil }

// Note takes a reading of the node's clock in, whatever it was read for.
func (g *Gates) Note(r *Reading) {
	if g.clock != nil {
		g.clock.Note(r)
	}
}

// Looks returns the commands of a look, the same for each node of a Locker: none without a restart
// guard.
func (g *Gates) Looks() []driver.Command {
	if g.restart == nil {
		return nil
	}
	return g.restart.all.look
}

// Probe says why a node that tells this of itself cannot have votes; nil: it can.
func (g *Gates) Probe(f *Facts) (err error) {
	if g.durable != nil {
		err = g.durable.probe(f)
	}
	if err == nil && g.clock != nil {
		err = g.clock.probe(f)
	}
	if err == nil && g.restart != nil {
		err = g.restart.probe(f)
	}
	return err
}

// Behind appends what the gates ask behind a batch of votes. The node asks for its time last of
// all.
func (g *Gates) Behind(cmds []driver.Command, s *Sending) []driver.Command {
	if g.durable != nil { // it counts what its connection has written just before
		cmds = append(cmds, g.durable.ask(s))
	}
	return append(cmds, g.Looks()...)
}

// Unknown reports whether the reply is missing that tells whether the votes of a batch are durable:
// then the replies to them are worth nothing.
func (g *Gates) Unknown(replies []driver.Reply) bool { return g.durable != nil && len(replies) == 0 }

// Judge says whether the grants of a batch are votes, by the replies to what the gates have
// asked, which are the first ones.
func (g *Gates) Judge(replies []driver.Reply, s *Sending) (v Verdict) {
	proof := replies
	if g.durable != nil {
		replies = replies[min(1, len(replies)):]
	}
	g.mu.Lock()
	if g.clock != nil {
		v = g.clock.judge(s)
	}
	if v.Doubt == nil && g.restart != nil {
		v = g.restart.judge(replies, s)
	}
	g.tell(v)
	v = v.done(g)
	if g.durable != nil && len(proof) > 0 {
		v.Doubt = cmp.Or(v.Doubt, g.durable.missing(proof[0]))
	}
	return v
}

// Look judges what the node has shown behind commands of the library's own.
func (g *Gates) Look(replies []driver.Reply, now clockdrift.Instant) Verdict {
	g.mu.Lock()
	s := &Sending{Sent: now, Received: now}
	var v Verdict
	if g.clock != nil {
		v = g.clock.quarantine(now)
	}
	if v.Doubt == nil && g.restart != nil {
		v = g.restart.judge(replies, s)
	}
	g.tell(v)
	return v.done(g)
}

// tell tells the user when the node stops voting, why that changes, and when it votes again.
// g.mu is held.
func (g *Gates) tell(v Verdict) {
	switch {
	case !g.Strict() || v.Doubt != nil && !v.Closed:
		return
	case v.Doubt == nil && g.closed:
		g.node.Note(fault.NodeAdmitted, nil)
	case v.Doubt != nil && (!g.closed || v.Shown != nil && v.Shown.Fault != nil && v.Shown != g.told):
		g.node.Note(fault.NodeQuarantined, v.Doubt)
	}
	g.told, g.closed = v.Shown, v.Doubt != nil
}

// done gives back g.mu, and does what the verdict wants done.
func (v Verdict) done(g *Gates) Verdict {
	g.mu.Unlock()
	g.node.Emit()
	if v.then != nil {
		v.then()
	}
	return v
}

// Left is for how long the gates keep the node from voting, as far as that is known.
func (g *Gates) Left(now clockdrift.Instant) (left time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clock != nil {
		left = g.clock.out.Sub(now)
	}
	if g.restart != nil && g.restart.young {
		left = max(left, g.restart.until.Sub(now))
	}
	return max(left, 0)
}

// Close ends what the gates have running.
func (g *Gates) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.restart != nil && g.restart.timer != nil {
		g.restart.timer.Stop()
	}
}

// quarantineError is a node that has to wait before its grants are votes.
type quarantineError struct {
	why    string
	left   time.Duration
	advice string
	cause  error // what keeps the quarantine from ending
}

func (e *quarantineError) Error() string {
	text := fmt.Sprintf("%v: %s; ", fault.ErrQuarantine, e.why)
	switch {
	case e.cause != nil:
		return text + e.cause.Error()
	case e.left > 0:
		text += fmt.Sprintf("it votes again in %v by itself", e.left.Round(time.Millisecond))
	default:
		text += "it votes again in a moment by itself"
	}
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

func (e *quarantineError) Is(target error) bool { return target == fault.ErrQuarantine }
func (e *quarantineError) Unwrap() error        { return e.cause }

// SitOut is how long a node sits out by our clock, so that leases of at most the longest TTL have
// ended by their holders'.
func SitOut(longest time.Duration, drift float64) time.Duration {
	return longest + clockdrift.Allowance(longest, drift) + tick
}

// tick is what a server's clock may be behind by when it tells the age of a key.
const tick = time.Millisecond
