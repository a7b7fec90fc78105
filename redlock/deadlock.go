package redlock

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// WithDeadlockDetection finds rings of locks of several processes, each of whose work waits for the
// next: a wait that has taken longer than after, under the [Lock.Context] of another lock, is told to
// the nodes, and followed from lock to lock. Of a ring the youngest wait fails, with a [DeadlockError] that
// names keys and owners ([WithOwner]), as a rule within twice the time and with a lost message within
// three times. Rings within one Locker are found at once, without the option.
//
// All Lockers whose locks may be part of a ring need the option, with the same time: 100ms to a minute.
// One second is a good value. Nothing is sent before that time. Then each such wait costs a node two
// scripts each half of the time: one for each lock that it works under, and one for each lock on the way.
//
// A wait that fails was part of a ring: all of its waits went on at one moment, and all of its locks were
// held. Not found are rings through the permits of a [Semaphore], through readers who wait behind a
// writer that waits, through more than 64 locks, through contexts that carry no lock (see [Detach]), and
// those where a majority of the nodes does not answer. They end with a lease, or with [WithMaxWait].
//
// The nodes must run scripts (+eval +evalsha), and keep ql:waits:{KEY}; [NodeLimited] says which do not. The
// keys need a hash tag, or no closing brace.
//
// The method is edge chasing (Chandy, Misra and Haas, Distributed deadlock detection, ACM TOCS 1983),
// with a nonce that each wait of the ring has to echo: test/model/deadlock.pml searches it.
func WithDeadlockDetection(after time.Duration) Option {
	return option(func(o *lockerOptions) { o.deadlocks, o.detects = after, true })
}

// The bounds of its time.
const (
	minDetection = 100 * time.Millisecond
	maxDetection = time.Minute
)

// maxWalk bounds how many keys one walk reads.
const maxWalk = 64

// A detector looks for a ring through one wait.
//
// It puts an edge beside each key that the wait's context holds, again and again while wait and locks go
// on. It walks along the edges of others, from the key that it waits for. If it comes back to a key that
// its own context holds, and no wait on the way is younger, it puts a nonce beside each key on the way.
// Who puts an edge there anew reads the nonce, and echoes it in the next edge. If all have, each of them
// has gone on since the walk was over. So when it was, all of them waited, and held what the others
// waited for.
//
// An edge that runs late tells nothing: its echo was written before it left.
type detector struct {
	*Locker
	edge  protocol.Edge // its own, but for Shares
	began clockdrift.Instant
	under []footing
	end   func(error)     // ends the wait
	ctx   context.Context //nolint:containedctx // that of one wait
}

// A footing is one key that is held while the wait goes on.
type footing struct {
	*lease
	key    string // as the nodes know it
	shares bool
}

// A hop is one wait on the way from the wait that is looked for a ring through.
type hop struct {
	protocol.Edge
	at     string // the key that its lock has
	from   *hop   // whose wait is for that; nil: the wait itself
	echoed bool
}

// detect looks for rings through a wait for keys, once it has taken some time, until it is stopped. End
// ends the wait.
func (l *Locker) detect(ctx context.Context, o *acquireOptions, keys []string, end func(error)) (stop func()) {
	if !l.options.detects || o.kind.slots != nil || ctx.Done() == nil {
		return func() {}
	}
	d := &detector{Locker: l, began: l.clock.Now(), end: end}
	for _, held := range l.carries(ctx) {
		if held.places != nil {
			continue
		}
		for _, key := range held.attempt.Names() {
			d.under = append(d.under, footing{held, l.options.prefix + key, held.attempt.Kind.Joins})
		}
	}
	if len(d.under) == 0 {
		return func() {}
	}
	d.edge = protocol.Edge{Wait: l.board.Random.Nonce(), Reads: o.kind.joins()}
	for _, key := range keys {
		d.edge.Keys = append(d.edge.Keys, l.options.prefix+key)
	}
	ctx, cancel := context.WithCancel(ctx)
	d.ctx = ctx
	timer := time.AfterFunc(l.options.deadlocks, func() { l.work.start(d.run) })
	return func() {
		timer.Stop()
		cancel()
	}
}

// period is how often an edge is put anew.
func (d *detector) period() time.Duration { return d.options.deadlocks / 2 }

// life is how long an edge and a nonce stay that are not put anew.
func (d *detector) life() time.Duration { return 3 * d.period() }

// run looks until the wait is over.
func (d *detector) run() {
	if !d.date() {
		return
	}
	defer d.withdraw()
	var ring []*hop // that was found, and is not proved
	var nonce string
	var gone, due clockdrift.Instant // when it is given up for gone; when to put the edge anew
	defer func() { d.forget(ring) }()
	for d.goesOn() {
		if d.clock.Now() >= due {
			due = d.clock.Now().Add(d.period()*3/4 + d.board.Jitter(d.period()/4))
			if d.publish() { // who asks for an echo gets it at once
				d.publish()
			}
		}
		switch {
		case ring == nil:
			if ring = d.walk(); ring == nil {
				break
			}
			nonce, gone = d.board.Random.Nonce(), d.clock.Now().Add(2*d.period())
			d.ask(ring, func(h *hop) []driver.Command { return protocol.PutNonce(h.at, d.edge.Wait, nonce, d.life()) })
		case d.proved(ring, nonce):
			if d.goesOn() {
				d.end(d.ring(ring))
			}
			return
		case d.clock.Now() >= gone: // one of its waits has ended, or its messages are lost
			d.forget(ring)
			ring = nil
		}
		pause := due.Sub(d.clock.Now())
		if ring != nil {
			pause = min(pause, d.period()/8)
		}
		d.rest(d.ctx, max(pause, time.Millisecond))
	}
}

// goesOn reports whether the wait and all locks that it works under go on.
func (d *detector) goesOn() bool {
	if d.ctx.Err() != nil || d.closed() {
		return false
	}
	return !slices.ContainsFunc(d.under, func(f footing) bool { return (attempt{f.lease}).Left() <= 0 })
}

// date dates the wait by the nodes' clocks.
func (d *detector) date() bool {
	for d.goesOn() {
		var times []int64
		for _, s := range d.sights(d.under[0].key) {
			times = append(times, s.Micros)
		}
		if len(times) >= d.board.Quorum {
			slices.Sort(times)
			d.edge.Since = times[len(times)/2] - d.clock.Now().Sub(d.began).Microseconds()
			return true
		}
		d.rest(d.ctx, d.period())
	}
	return false
}

// publish puts the edge anew, if the wait goes on. It reports whether there is a nonce that it has not
// echoed.
func (d *detector) publish() (asked bool) {
	if !d.goesOn() {
		return false
	}
	ops := make([]*quorum.Operation, 0, len(d.under))
	for _, f := range d.under {
		e := d.edge
		e.Shares, e.Owner = f.shares, protocol.Owner(f.attempt.Token)
		ops = append(ops, d.question(f.key, protocol.PutEdge(f.key, &e, d.life())))
	}
	echo := make(map[string]bool)
	for _, op := range ops {
		for _, s := range d.await(op) {
			for _, nonce := range s.Nonces {
				echo[nonce] = true
				asked = asked || !slices.Contains(d.edge.Echo, nonce)
			}
		}
	}
	d.edge.Echo = slices.Sorted(maps.Keys(echo))
	return asked
}

// withdraw takes the edges away.
func (d *detector) withdraw() {
	for _, f := range d.under {
		d.question(f.key, protocol.DropEdge(f.key, d.edge.Wait))
	}
}

// forget takes the nonces away.
func (d *detector) forget(ring []*hop) {
	for _, h := range ring {
		d.question(h.at, protocol.DropNonce(h.at, d.edge.Wait))
	}
}

// walk looks for a way back to a key that is held, along waits that are older than this one.
func (d *detector) walk() (ring []*hop) {
	me := &hop{Edge: d.edge}
	type step struct {
		key   string
		reads bool
	}
	been := make(map[step]bool)
	for ends := []*hop{me}; len(ends) > 0 && len(been) < maxWalk; {
		var steps []step
		var from []*hop
		for _, h := range ends {
			for _, key := range h.Keys {
				if next := (step{key, h.Reads}); !been[next] && len(been) < maxWalk && strings.HasPrefix(key, d.options.prefix) {
					been[next] = true
					steps, from = append(steps, next), append(from, h)
				}
			}
		}
		ops := make([]*quorum.Operation, len(steps))
		for i, s := range steps {
			ops[i] = d.question(s.key, protocol.ReadWaits(s.key))
		}
		ends = nil
		for i, op := range ops {
			seen := make(map[string]bool)
			for _, s := range d.await(op) {
				for _, e := range s.Edges {
					if seen[e.Wait] || !d.edge.Younger(&e) || !e.Blocks(steps[i].reads) {
						continue
					}
					seen[e.Wait] = true
					h := &hop{Edge: e, at: steps[i].key, from: from[i]}
					if d.blocks(&e) >= 0 {
						for ; h != me; h = h.from {
							ring = append(ring, h)
						}
						slices.Reverse(ring)
						return ring
					}
					ends = append(ends, h)
				}
			}
		}
	}
	return nil
}

// blocks is which of the keys that are held here keeps somebody out, or -1.
func (d *detector) blocks(e *protocol.Edge) int {
	return slices.IndexFunc(d.under, func(f footing) bool {
		own := protocol.Edge{Shares: f.shares}
		return own.Blocks(e.Reads) && slices.Contains(e.Keys, f.key)
	})
}

// proved reads the edges of a ring once more, and reports whether all have echoed the nonce by now.
func (d *detector) proved(ring []*hop, nonce string) bool {
	sights := d.ask(ring, func(h *hop) []driver.Command { return protocol.ReadWaits(h.at) })
	all := true
	for i, h := range ring {
		for _, s := range sights[i] {
			for _, e := range s.Edges {
				h.echoed = h.echoed || e.Wait == h.Wait && slices.Contains(e.Echo, nonce)
			}
		}
		all = all && h.echoed
	}
	return all
}

// ring words a ring: the hops from this wait back to it.
func (d *detector) ring(hops []*hop) error {
	own := d.under[d.blocks(&hops[len(hops)-1].Edge)]
	name := func(key string) string { return strings.TrimPrefix(key, d.options.prefix) }
	e := &DeadlockError{Cycle: []Wait{{Holds: name(own.key), WaitsFor: name(hops[0].at), Owner: protocol.Owner(own.attempt.Token)}}}
	for i, h := range hops {
		wait := Wait{Holds: name(h.at), WaitsFor: name(own.key), Owner: h.Owner}
		if i+1 < len(hops) {
			wait.WaitsFor = name(hops[i+1].at)
		}
		e.Cycle = append(e.Cycle, wait)
	}
	return e
}

// ask asks all nodes about each hop, and returns what they have said.
func (d *detector) ask(ring []*hop, what func(*hop) []driver.Command) (sights [][]protocol.Sight) {
	ops := make([]*quorum.Operation, len(ring))
	for i, h := range ring {
		ops[i] = d.question(h.at, what(h))
	}
	for _, op := range ops {
		sights = append(sights, d.await(op))
	}
	return sights
}

// sights are what the nodes have beside a key.
func (d *detector) sights(key string) []protocol.Sight {
	return d.await(d.question(key, protocol.ReadWaits(key)))
}

// question asks all nodes about what stands beside a key. It waits for nobody's lock on it.
func (d *detector) question(key string, cmds []driver.Command) *quorum.Operation {
	op := d.about(strings.TrimPrefix(key, d.options.prefix)+" waits", protocol.Waits)
	op.Full, op.Key, op.Cmds = make(chan struct{}), key, cmds
	if !op.AskAll() {
		return nil
	}
	return op
}

// await returns what the nodes have said, once a quorum or all have answered.
func (d *detector) await(op *quorum.Operation) (sights []protocol.Sight) {
	if op == nil { // the Locker is being closed
		return nil
	}
	select {
	case <-op.Done:
	case <-d.ctx.Done():
	case <-d.closing:
	}
	d.awaitMore(d.ctx, op)
	op.Attempt.Mu.Lock()
	votes := op.Tally().Votes
	op.Attempt.Mu.Unlock()
	for i, v := range votes {
		switch {
		case v.Answer == protocol.Granted:
			sights = append(sights, v.Reply.SeenWaits())
		case v.Answer == protocol.Failed && fault.Lasting(v.Err) && !d.blind[i].Swap(true):
			v.Node.Note(fault.NodeLimited, v.Err)
			v.Node.Emit()
		}
	}
	return sights
}
