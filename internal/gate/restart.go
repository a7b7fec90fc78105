package gate

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Restarts is what the restart guards of a Locker's nodes share: see redlock.WithRestartGuard.
type Restarts struct {
	Longest time.Duration // the longest TTL
	NodeSet uint64        // the id of the client's configuration of nodes
	Size    int           // so many nodes
	Quorum  int
	Prefix  string // of keys
	Drift   float64
	Clock   *clockdrift.Clock
	Random  protocol.Random

	look     []driver.Command
	nodes    []*Restart
	greatest atomic.Int64 // the ms of all markers seen
}

// A Restart keeps a node from voting that may have forgotten votes.
//
// A server takes a new master_replid whenever its history may have forked: at every start, empty
// or from its file, and at every promotion. FLUSHALL leaves the master_replid, so a node also
// keeps an epoch, a random value that goes with the keys. A marker admits one pair of the two. A
// batch that may set keys ends with a look at all three, on the same connection, and its grants
// are votes only if they agree. A marker for a history that has ended admits nobody, so nothing
// races; for that an epoch is never sent twice.
//
// That goes for extensions and hand-overs, too, whose token is there: the vote that the node
// forgot may be part of a quorum that somebody else is about to complete (test/model shows how,
// with MUTANT_UNGUARDED_EXTENSION and MUTANT_UNGUARDED_HANDOVER). Only releases need no look.
//
// Whoever has watched one history for the longest TTL knows that every lease has run out that an
// earlier history could have granted, and sets the marker to it: see [Restart.admit].
type Restart struct {
	all   *Restarts
	gates *Gates
	node  Node
	seen  atomic.Int64 // the ms of its marker; 0: none

	// Guarded by gates.mu.
	shown   *Condition // by the last look
	looked  clockdrift.Instant
	known   bool   // the node was seen admitted
	watch   *watch // of a history that is not admitted
	writing writing
}

// A watch is of one history.
type watch struct {
	replid, nonce string
	listed        bool // there is a node set
	since         clockdrift.Instant
	timer         *time.Timer // admits the history
}

// Init completes what the guards share, and returns it.
func (all *Restarts) Init() *Restarts {
	args := []any{"MGET"}
	for _, key := range RecordKeys {
		args = append(args, RecordKey(all.Prefix, key))
	}
	all.look = []driver.Command{
		{Args: []any{"INFO", "replication"}},
		{Args: args, FirstKey: 1, Keys: len(RecordKeys)},
	}
	return all
}

// probe refuses nodes whose history cannot be told, and takes in what the others show: one that comes
// up may be what another's quarantine waits for, and be down again before it is asked.
func (r *Restart) probe(f *Facts) error {
	switch {
	case f.Cluster:
		return fmt.Errorf("%w: it is a Redis Cluster, whose servers come and go by themselves: WithRestartGuard needs single servers", fault.ErrNode)
	case !f.History:
		return errNoHistory
	}
	r.gates.mu.Lock()
	defer r.gates.mu.Unlock()
	if _, err := r.condition(f.Look); err == nil { // else the next look says it
		r.looked = r.all.Clock.Fresh()
	}
	return nil
}

// judge says by the look whether the node votes. gates.mu is held.
func (r *Restart) judge(replies []driver.Reply, s *Sending) Verdict {
	if len(replies) < len(r.all.look) {
		return Verdict{Doubt: s.Err}
	}
	c, err := r.condition(replies)
	if err != nil {
		return Verdict{Doubt: err, Closed: true}
	}
	now := s.Received
	r.looked = now
	v := Verdict{Shown: c, Closed: true}
	switch admitted, longest := c.admits(), r.all.longest(); {
	case c.Fault != nil:
		v.Doubt = c.Fault
	case admitted && c.marker.Ms >= longest:
		r.known, r.writing, v.Closed = true, writing{}, false
	case r.all.shorter() != nil:
		v.Doubt = r.all.shorter().tooLong()
	case admitted:
		v.Doubt = shorterLeases(c.marker.Ms, longest, r.all.Prefix)
	default:
		v.then = r.quarantine(c, now)
		v.Doubt = r.sitsOut(c, now)
		return v
	}
	r.endWatch()
	return v
}

// Unadmitted reports whether all nodes have been looked at, and none has ever shown a marker.
func (all *Restarts) Unadmitted() bool {
	for _, r := range all.nodes {
		r.gates.mu.Lock()
		shown := r.shown != nil
		r.gates.mu.Unlock()
		if !shown {
			return false
		}
	}
	return all.greatest.Load() == 0
}

// shorter returns a node whose marker is for shorter leases than this client may take.
func (all *Restarts) shorter() *Restart {
	for _, r := range all.nodes {
		if ms := r.seen.Load(); ms != 0 && ms < all.Longest.Milliseconds() {
			return r
		}
	}
	return nil
}

// quarantine watches the node's history, and returns what is to be done now: the epoch is set if
// it is missing, other nodes are looked at when a watch begins, and the marker is set when it is
// over. gates.mu is held.
func (r *Restart) quarantine(c *Condition, now clockdrift.Instant) (act func()) {
	if r.gates.over {
		return nil
	}
	if c.nonce == "" {
		r.endWatch()
		return r.mayWrite(now, r.prepare)
	}
	w := r.watch
	if w == nil || w.replid != c.replid || w.nonce != c.nonce {
		r.endWatch()
		w = &watch{replid: c.replid, nonce: c.nonce, listed: c.listed, since: now}
		w.timer = time.AfterFunc(r.left(w, now), func() { r.wake(w) })
		r.watch = w
		return r.lookAround
	}
	w.listed = c.listed
	if r.left(w, now) > 0 {
		return nil
	}
	return r.mayWrite(now, func() { r.admit(w) })
}

// left is how long the watch has to go on. It is longer than at its beginning where a greater
// marker was seen since.
func (r *Restart) left(w *watch, now clockdrift.Instant) time.Duration {
	return w.since.Add(r.all.sitOut()).Sub(now)
}

// wake sets the marker when a watch is over, if nobody has looked since.
func (r *Restart) wake(w *watch) {
	now := r.all.Clock.Fresh()
	r.gates.mu.Lock()
	var write func()
	switch left := r.left(w, now); {
	case r.watch != w || r.gates.over:
	case left > 0:
		w.timer.Reset(left)
	case r.all.shorter() == nil:
		write = r.mayWrite(now, func() { r.admit(w) })
	}
	r.gates.mu.Unlock()
	if write != nil {
		write()
	}
}

// admit sets the marker to the history that was watched, and the node set where it is missing, if
// this client may say what they are to be. Its own settings may differ from the others'. So it
// writes what it has read at another node that is admitted, or in this one's own old marker: then
// all markers name one longest TTL, and all nodes the sets that they were given. Its own it
// writes where no node is admitted, as at the first deployment: it has found so many nodes
// without admission since the watch began that it has missed one at most, and this one is found
// so behind them.
//
// test/model shows two holders without that rule: guard with MUTANT_NO_WITNESS, set with
// MUTANT_ANYBODY.
func (r *Restart) admit(w *watch) {
	mark := func() { r.mark(Marker{w.replid, w.nonce, r.all.longest()}) }
	r.gates.mu.Lock()
	if !w.listed {
		behind := mark
		mark = func() { r.list(behind) }
	}
	r.gates.mu.Unlock()
	switch witnessed, missed := r.witness(w); {
	case witnessed:
		mark()
	case len(missed) <= r.all.mayMiss():
		r.lookNow(func(c *Condition) {
			if c.replid == w.replid && c.nonce == w.nonce && c.Fault == nil && !c.admits() {
				mark()
			}
		})
	default:
		r.await(w, &unwitnessedError{missed})
		r.lookAround()
	}
}

// mayMiss is how many nodes may not answer where a client ends a quarantine by itself.
func (all *Restarts) mayMiss() int { return all.Size - max(all.Quorum, all.Size-1) }

// witness reports whether a node tells what this one is to be admitted for: another one that is
// admitted, by the last look, or this one itself by its old marker. Otherwise it returns the
// others that were not seen without admission since the watch began.
func (r *Restart) witness(w *watch) (witnessed bool, missed []string) {
	for _, other := range r.all.nodes {
		other.gates.mu.Lock()
		c, looked := other.shown, other.looked
		other.gates.mu.Unlock()
		switch {
		case c != nil && c.Fault == nil && c.listed && c.marker.Ms >= r.all.longest() && (other == r || c.admits()):
			return true, nil
		case other == r:
		case c == nil || c.Fault != nil || looked < w.since:
			missed = append(missed, other.node.Name())
		}
	}
	return false, missed
}

// lookAround looks at all other nodes. It does not wait.
func (r *Restart) lookAround() {
	for _, other := range r.all.nodes {
		if other != r {
			other.lookNow(nil)
		}
	}
}

// await tries again to end a watch that nobody vouches for.
func (r *Restart) await(w *watch, why error) {
	r.gates.mu.Lock()
	defer r.gates.mu.Unlock()
	if r.watch != w {
		return
	}
	r.writing.refused = why
	w.timer.Reset(r.writing.pause)
	r.writing.pause *= 2
}

// unwitnessedError is a quarantine that has to go on although its time is over.
type unwitnessedError struct{ missed []string }

func (e *unwitnessedError) Error() string {
	return fmt.Sprintf("it has sat out its time, but no node that is admitted confirms what it is to be admitted for, and %s did not answer since: bring one back; or stop all clients for the longest TTL, and call Locker.ForceAdmission",
		strings.Join(e.missed, ", "))
}

// endWatch ends the watch, if there is one. gates.mu is held.
func (r *Restart) endWatch() {
	if r.watch != nil {
		r.watch.timer.Stop()
		r.watch = nil
	}
}

// sitsOut words a quarantine. gates.mu is held.
func (r *Restart) sitsOut(c *Condition, now clockdrift.Instant) error {
	w := r.watch
	if w == nil {
		w = &watch{since: now} // it begins when what is missing is set
	}
	e := &quarantineError{left: r.left(w, now), cause: r.writing.refused}
	switch lost := c.marker == (Marker{}); {
	case lost && r.known:
		e.why, e.advice = "it came back empty and may have forgotten locks", "do not admit it"
	case lost && r.all.greatest.Load() > 0:
		e.why, e.advice = "nobody has admitted it, as others are: it came back empty, or is new", "do not admit it"
	case lost:
		e.fresh = true
		e.why, e.advice = "nobody has admitted it, or it came back empty", "keep a Locker open until then"
	default:
		e.why = "it was started anew, promoted or flushed, and may have forgotten locks"
	}
	return e
}
