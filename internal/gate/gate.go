// Package gate holds the reasons for which a node's grants are no votes: the node was started anew and may
// have forgotten votes ([Restart]), its clock was set forward ([Clock]), or a vote is not safe on disk or on
// replicas yet ([Durable]). A Locker without gates runs none of this.
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

// Facts are a node's answers about itself at a probe.
type Facts struct {
	Cluster  bool  // a Redis Cluster
	History  bool  // the node tells its master_replid
	Timeless error // why the node does not tell its time; nil: it does
}

// A Sending is one sending of a batch with votes.
type Sending struct {
	Sent, Received clockdrift.Instant
	Err            error              // why replies are missing
	Until          clockdrift.Instant // by when a durable vote is to be safe, however often it is sent
	Reading        Reading            // of the node's clock, in this sending
}

// A Verdict says whether grants are votes.
type Verdict struct {
	Doubt  error      // why not; nil: they are
	Closed bool       // nor will other votes count for a while, of which an event tells
	Shown  *Condition // the node's condition, by a look
	then   func()     // to be called at once, without any mutex
}

// A Node is the gates' view of their node.
type Node interface {
	Name() string
	// Note queues an event; Emit tells the user the queued events.
	Note(kind fault.Kind, err error)
	Emit()
	// Beside asks the node beside its queues, for a node time-out at most.
	Beside(cmds []driver.Command) ([]driver.Reply, error)
	// Ask puts commands of the library's own in the node's queue. Then is called with the outcome.
	Ask(op *protocol.Op, cmds []driver.Command, then func(replies []driver.Reply, err error))
	// ReadClock reads the node's clock by itself.
	ReadClock() (Reading, error)
}

// Gates are what a node's grants have to pass before they are votes. A batch is not atomic: between any two
// of its commands a node may forget what it had granted. So the gates ask behind every voting command. A
// loss before shows there; a loss afterwards is a loss of a counted vote. Gates are safe for concurrent use.
type Gates struct {
	node Node
	// In the order of their questions; durable judges last. Nil: not wanted.
	durable *Durable
	clock   *Clock
	restart *Restart

	mu     sync.Mutex
	over   bool       // the node is being closed
	closed bool       // the user was told that the node does not vote
	told   *Condition // the condition that the user was told, or a later one
}

// New returns the gates of a node; nil for unwanted ones.
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

// Strict reports whether a vote counts only if it took no longer than a node time-out: a gate's look behind
// the vote tells of its own moment.
func (g *Gates) Strict() bool { return g.clock != nil || g.restart != nil }

// ReadsClock reports whether every batch of votes has to read the node's clock.
func (g *Gates) ReadsClock() bool { return g.clock != nil }

// Note takes in a reading of the node's clock, whoever read it.
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

// Probe says why a node with these facts cannot have votes; nil: it can.
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

// Behind appends the gates' questions behind a batch of votes. The node's time comes last of all.
func (g *Gates) Behind(cmds []driver.Command, s *Sending) []driver.Command {
	if g.durable != nil { // it counts writes of its connection just before
		cmds = append(cmds, g.durable.ask(s))
	}
	return append(cmds, g.Looks()...)
}

// Unknown reports whether the reply of the durable gate is missing: then the batch's replies are worth
// nothing.
func (g *Gates) Unknown(replies []driver.Reply) bool { return g.durable != nil && len(replies) == 0 }

// Judge says whether the grants of a batch are votes, by the replies to the gates' questions, which come
// first.
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

// Look judges a node by the replies behind commands of the library's own.
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

// tell tells the user when the node stops voting, when the reason changes, and when the node votes again.
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

// done gives back g.mu, and carries out the verdict.
func (v Verdict) done(g *Gates) Verdict {
	g.mu.Unlock()
	g.node.Emit()
	if v.then != nil {
		v.then()
	}
	return v
}

// Left is for how long the gates keep the node from voting, as far as known.
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

// Close ends the gates' work.
func (g *Gates) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.restart != nil && g.restart.timer != nil {
		g.restart.timer.Stop()
	}
}

// A quarantineError says that a node has to wait before its grants are votes.
type quarantineError struct {
	why    string
	left   time.Duration
	advice string
	cause  error // why the quarantine does not end
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

// SitOut is how long a node sits out by our clock, so that leases of at most the longest TTL have ended by
// their holders' clocks.
func SitOut(longest time.Duration, drift float64) time.Duration {
	return longest + clockdrift.Allowance(longest, drift) + tick
}

// tick is the greatest lag of a server's clock in a key's age.
const tick = time.Millisecond
