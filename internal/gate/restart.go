package gate

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// Restarts is what the restart guards of a Locker's nodes share: see redlock.WithRestartGuard.
type Restarts struct {
	*memory.Rules
	prefix string
	key    string // of the record
	clock  *clockdrift.Clock
	look   []driver.Command
	nodes  []*Restart
	heard  atomic.Int32 // so many nodes have been looked at
}

// NewRestarts returns the restart guard of clients with these settings and key prefix.
func NewRestarts(s memory.Settings, prefix string, clock *clockdrift.Clock) *Restarts {
	key := memory.Key(prefix)
	return &Restarts{Rules: memory.New(s), prefix: prefix, key: key, clock: clock, look: []driver.Command{
		{Args: []any{"INFO", "replication"}},
		{Args: []any{"HMGET", key, "id", "for", "age"}, FirstKey: 1, Keys: 1},
	}}
}

// A Restart keeps a node from voting that may have forgotten votes: see package memory for the rules.
//
// A batch that may set keys ends with a look: two plain reads, on the same connection, in any order.
// That goes for extensions and hand-overs, too, whose token is there: the vote that the node forgot may
// be part of a quorum that somebody else is about to complete. Only releases need no look.
//
// The script that begins a record, and adds to its age, runs while the memory is young: behind a look
// that says so, and then by a timer, twice in a [memory.Settings.Cap].
type Restart struct {
	all   *Restarts
	gates *Gates
	node  Node
	view  atomic.Uint32 // a [memory.View], by the last look

	// Guarded by gates.mu.
	shown   *Condition         // by the last look
	young   bool               // the memory is
	why     string             // it is, as far as it was seen
	until   clockdrift.Instant // about when it is old enough, if young
	next    clockdrift.Instant // the script does not run before,
	heard   int32              // unless more nodes have been looked at than these
	timer   *time.Timer        // runs the script; nil: the memory was never young
	refused error              // why the script did not run
}

// A Condition is what a look has shown of a node.
type Condition struct {
	name, history string
	others        string // the settings that the record is for, if they are not ours
	Fault         error  // why this client leaves the node alone; nil: it does not
}

// probe refuses nodes whose history cannot be told.
func (r *Restart) probe(f *Facts) error {
	switch {
	case f.Cluster:
		return fmt.Errorf("%w: it is a Redis Cluster, whose servers come and go by themselves: WithRestartGuard needs single servers", fault.ErrNode)
	case !f.History:
		return errNameless
	}
	return nil
}

// judge says by the look whether the node votes. gates.mu is held.
func (r *Restart) judge(replies []driver.Reply, s *Sending) Verdict {
	if len(replies) < len(r.all.look) {
		return Verdict{Doubt: s.Err}
	}
	heard := r.all.heard.Load()
	c, state, left, err := r.read(replies)
	if err != nil {
		r.young = false
		return Verdict{Doubt: err, Closed: true}
	}
	v, was := Verdict{Shown: c, Closed: true}, r.young
	r.young = state == memory.Young || state == memory.Missing || state == memory.Forgot
	switch {
	case r.young:
		r.until = s.Received.Add(left)
		switch {
		case state == memory.Missing:
			r.why = "it is new, or came back empty"
		case state == memory.Forgot:
			r.why = "it was started anew or promoted, and may have forgotten locks"
		case r.why == "":
			r.why = "it is new, or was started anew, promoted or flushed, and may have forgotten locks"
		}
		v.Doubt, v.then = r.sitsOut(state, left, !was), r.watch
		if !was {
			v.then = r.begins
		}
	case c.Fault != nil:
		v.Doubt = c.Fault
	default:
		v.Closed, r.why, r.refused = false, "", nil
	}
	if v.then == nil && r.all.heard.Load() != heard {
		v.then = r.all.watch // others may begin their records now
	}
	return v
}

// read reads the replies to a look. gates.mu is held.
func (r *Restart) read(replies []driver.Reply) (c *Condition, state memory.State, left time.Duration, err error) {
	info, record := replies[0], replies[1]
	switch {
	case info.Kind != driver.String:
		return nil, 0, 0, protocol.Unexpected(info)
	case protocol.Says(record, "WRONGTYPE"):
		return nil, 0, 0, r.all.foreign()
	case protocol.Lacks(replies[1:]):
		return nil, 0, 0, fmt.Errorf("%w: it does not show the guard's key %q: %s: %w", fault.ErrNode, r.all.key, fault.Without(record.Err(), "hmget"), record.Err())
	case protocol.Says(record, "NOPERM"):
		return nil, 0, 0, fmt.Errorf("%w: its user may not use the guard's key: %s: %w", fault.ErrNode, r.all.allow(), record.Err())
	case record.Kind != driver.Array || len(record.Elems) != 3:
		return nil, 0, 0, protocol.Unexpected(record)
	}
	var texts [3]string
	for i, field := range record.Elems {
		switch field.Kind {
		case driver.String:
			texts[i] = field.Str
		case driver.Nil:
		default:
			return nil, 0, 0, protocol.Unexpected(field)
		}
	}
	server := memory.Server{Role: protocol.Field(info.Str, "role:"), History: protocol.Field(info.Str, "master_replid:")}
	own := memory.Record{ID: texts[0], For: texts[1], Age: memory.Age(texts[2])}
	state, left = r.all.Judge(server, own)
	if state == memory.Replica {
		return nil, state, 0, fault.Passing(fmt.Errorf("%w: it is a replica: give the master's address", fault.ErrNode))
	}
	if state == memory.Nameless {
		return nil, state, 0, errNameless
	}
	if r.view.Swap(uint32(state.View())) == uint32(memory.Unheard) {
		r.all.heard.Add(1)
	}
	others := ""
	if state == memory.Others {
		others = own.For
	}
	if last := r.shown; last == nil || last.history != server.History || last.others != others {
		r.shown = &Condition{name: r.node.Name(), history: strings.Clone(server.History), others: others}
		if state == memory.Others {
			r.shown.Fault = r.all.others(others)
		}
	}
	return r.shown, state, left, nil
}

var errNameless = fmt.Errorf("%w: INFO replication shows no role, or no master_replid of 40 hex digits, so nobody can tell whether it has forgotten anything: without WithRestartGuard it can be used", fault.ErrNode)

// allow is the ACL that the guard needs.
func (all *Restarts) allow() string {
	return "allow " + strings.Join(acl.Rules(all.prefix, acl.RestartGuard), " ")
}

// foreign is a key that somebody else uses.
func (all *Restarts) foreign() error {
	return fmt.Errorf("%w: its key %q is no record of the guard's: who else uses it? Delete it, and the node sits out once", fault.ErrNode, all.key)
}

// others is a record for other settings. A text that names none is not shown, for it may be a secret.
func (all *Restarts) others(text string) error {
	if to, ok := memory.ParseLeaving(text); ok {
		return fmt.Errorf("%w: the node is being changed to %q (longest TTL in ms, node set:nodes), and this client has %q: run quorumlock settings once more with the same arguments, and give all clients the new settings",
			fault.ErrNodeSet, to, all.Text)
	}
	if _, ok := memory.Parse(text); !ok {
		return all.foreign()
	}
	return fmt.Errorf("%w: the node is for clients with %q (longest TTL in ms, node set:nodes), and this one has %q: give all clients the same longest TTL, WithNodeSet and nodes; to change them: quorumlock settings --from %q --to %q",
		fault.ErrNodeSet, text, all.Text, text, all.Text)
}

// watch is [Restart.watch] at all nodes.
func (all *Restarts) watch() {
	for _, r := range all.nodes {
		r.watch()
	}
}

// begins looks at all other nodes as well, which may be young, too, or say whether the record may be begun.
func (r *Restart) begins() {
	for _, other := range r.all.nodes {
		if other != r {
			other.ask(opLook)
		}
	}
	r.all.watch()
}

// watch runs the script, unless that was done a moment ago, and again in half a cap while the memory is
// young. It does not wait.
func (r *Restart) watch() {
	all, now := r.all, r.all.clock.Fresh()
	r.gates.mu.Lock()
	if r.gates.over || !r.young || now < r.next && r.heard == all.heard.Load() {
		r.gates.mu.Unlock()
		return
	}
	r.next, r.heard = now.Add(all.Cap()/4), all.heard.Load()
	if r.timer == nil {
		r.timer = time.AfterFunc(all.Cap()/2, r.watch)
	}
	r.timer.Reset(all.Cap() / 2)
	r.gates.mu.Unlock()
	begins := "1"
	if !memory.MayBegin(all.views()) {
		begins = "0"
		for _, other := range all.nodes {
			if other != r && other.seen() != memory.Agrees {
				other.ask(opLook)
			}
		}
	}
	r.ask(opWatch, scripts.Remember.One(nil, all.key, all.Text, micro(all.Cap()), micro(all.Need()), begins))
}

// ask asks the node, with a look behind it.
func (r *Restart) ask(op *protocol.Op, cmds ...driver.Command) {
	r.node.Ask(op, append(cmds, r.all.look...), func(replies []driver.Reply, err error) { r.looked(op, replies, err) })
}

func micro(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// seen is what is known of the node.
func (r *Restart) seen() memory.View { return memory.View(r.view.Load()) } //nolint:gosec // it was one

// views is what is known of the nodes.
func (all *Restarts) views() (views []memory.View) {
	for _, r := range all.nodes {
		views = append(views, r.seen())
	}
	return views
}

// The ops of the guard. Both end with a look.
var (
	opLook  = protocol.NewOp("look", false, func([]driver.Reply) error { return nil })
	opWatch = protocol.NewOp("watch", false, func(replies []driver.Reply) error {
		switch reply := replies[0]; {
		case reply.Kind == driver.Integer:
			return nil
		case protocol.Lacks(replies[:1]): // of what the script runs, the look has no HSET
			return fmt.Errorf("%w: its script for the guard's key does not run: %s: %w", fault.ErrNode, fault.Without(reply.Err(), "hset"), reply.Err())
		default:
			return protocol.Unexpected(reply)
		}
	})
)

// looked judges the look behind commands of the guard's own. A script that the node refuses is told once.
func (r *Restart) looked(op *protocol.Op, replies []driver.Reply, err error) {
	if replies == nil {
		return // the next call of the timer asks again
	}
	r.gates.mu.Lock()
	if op == opWatch {
		if err != nil && (r.refused == nil || r.refused.Error() != err.Error()) {
			r.node.Note(fault.NodeQuarantined, &quarantineError{why: "its memory cannot grow", cause: err})
		}
		r.refused = err
	}
	r.gates.mu.Unlock()
	r.gates.Look(replies[len(replies)-len(r.all.look):], r.all.clock.Fresh())
}

// sitsOut words a quarantine. gates.mu is held.
func (r *Restart) sitsOut(state memory.State, left time.Duration, first bool) error {
	e := &quarantineError{why: r.why, left: left, advice: "keep a Locker open until then", cause: r.refused}
	if state != memory.Young && e.cause == nil {
		e.cause = r.all.doubt(first)
	}
	return e
}

// doubt is why this client begins no record; nil: it does. At first the other nodes are only just being asked.
func (all *Restarts) doubt(first bool) error {
	views := all.views()
	if memory.MayBegin(views) {
		return nil
	}
	for i, v := range views {
		if v == memory.Differs {
			return fmt.Errorf("this client begins no record there: node %s is for clients with other settings", all.nodes[i].node.Name())
		}
	}
	for i, v := range views {
		if v == memory.Unheard && !first {
			return fmt.Errorf("this client begins no record there before node %s has answered, or one that is in use for clients with its settings: bring that node up, or take it out of the list (WithNodeSet)", all.nodes[i].node.Name())
		}
	}
	return nil
}

// Twins says why the vote of a node is none: the look behind another's vote has shown the same history, so
// the two are one server.
func Twins(own, other *Condition) error {
	if own.history != other.history {
		return nil
	}
	return fault.Passing(fmt.Errorf("%w: it has the master_replid of node %s, so it is the same server and would vote twice: give each node a server of its own", fault.ErrNode, other.name))
}
