package deadlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// The bounds of a walk: keys, and questions under way.
const (
	maxWalk      = 64
	maxQuestions = 256
)

// A hop is a wait on the way from the wait where the walk began.
type hop struct {
	protocol.Edge
	at     string // the key of its lock
	from   *hop   // the hop whose wait is for at; nil: the walk's wait itself
	echoed bool
}

// A ring is found by a walk, and not proved.
type ring struct {
	hops  []*hop
	nonce string
	gone  clockdrift.Instant // from then on the ring is given up
}

// A walk looks for a way from a wait back to a key of its own, along older waits.
type walk struct {
	*nestedWait
	ends  []*hop // of the last step
	been  map[step]bool
	steps []step
	from  []*hop // of each step
}

// A step goes to the holders that keep a waiter out of a key.
type step struct {
	key   string
	reads bool // the waiter wants to read
}

// walk looks for rings through the waits that are due, and asks the waits of a ring for a sign of life.
// Walks go side by side, and a key is read once for all of them.
func (d *Detector) walk(waits []*nestedWait) {
	now := d.Board.Clock.Now()
	var walks []*walk
	for _, w := range waits {
		if d.ringOf(w) != nil || now < w.look || !w.goesOn() {
			continue
		}
		// Its youngest wait closes a ring: the ring is complete at the first look at that wait, unless a
		// message is lost.
		w.look = d.in(min(max(1, float64(now.Sub(w.began))/float64(4*d.period())), 4))
		walks = append(walks, &walk{nestedWait: w, ends: []*hop{{Edge: w.Edge}}, been: make(map[step]bool)})
	}
	read := make(map[string][]protocol.Edge)
	for len(walks) > 0 {
		var keys []string
		for _, k := range walks {
			k.plan(d.Prefix)
			for _, s := range k.steps {
				if _, known := read[s.key]; !known {
					read[s.key] = nil
					keys = append(keys, s.key)
				}
			}
		}
		for some := range slices.Chunk(keys, maxQuestions) {
			for i, sights := range d.ask(some, protocol.ReadWaits) {
				for _, s := range sights {
					read[some[i]] = append(read[some[i]], s.Edges...)
				}
			}
		}
		walks = slices.DeleteFunc(walks, func(k *walk) bool {
			if hops := k.follow(read); hops != nil {
				d.challenge(k.nestedWait, hops)
				return true
			}
			return len(k.ends) == 0
		})
	}
}

// plan chooses the next steps. Where there are too many it takes any; the next walk takes others.
func (k *walk) plan(prefix string) {
	k.steps, k.from = nil, nil
	for _, i := range rand.Perm(len(k.ends)) { //nolint:gosec // an order is no secret
		h := k.ends[i]
		for _, key := range h.Keys {
			if next := (step{key, h.Reads}); !k.been[next] && len(k.been) < maxWalk && strings.HasPrefix(key, prefix) {
				k.been[next] = true
				k.steps, k.from = append(k.steps, next), append(k.from, h)
			}
		}
	}
	k.ends = nil
}

// follow takes the steps, by the edges beside the keys. It returns a ring, if they close one.
func (k *walk) follow(read map[string][]protocol.Edge) (hops []*hop) {
	for i, s := range k.steps {
		seen := make(map[string]bool)
		for _, e := range read[s.key] {
			if seen[e.Wait] || k.Compare(e) <= 0 || !e.Blocks(s.reads) {
				continue
			}
			seen[e.Wait] = true
			h := &hop{Edge: e, at: s.key, from: k.from[i]}
			if k.blocks(&e) >= 0 {
				for ; h.from != nil; h = h.from {
					hops = append(hops, h)
				}
				slices.Reverse(hops)
				return hops
			}
			k.ends = append(k.ends, h)
		}
	}
	return nil
}

// blocks is the index of the held key that keeps a waiter out, or -1.
func (w *nestedWait) blocks(e *protocol.Edge) int {
	return slices.IndexFunc(w.under, func(f Footing) bool {
		own := protocol.Edge{Shares: f.shares()}
		return own.Blocks(e.Reads) && slices.Contains(e.Keys, f.Key)
	})
}

// challenge asks the waits of a ring for a sign of life.
func (d *Detector) challenge(w *nestedWait, hops []*hop) {
	d.mu.Lock()
	if _, there := d.waits[w]; !there {
		d.mu.Unlock()
		return
	}
	w.found = &ring{hops, d.Board.Random.Nonce(), d.Board.Clock.Now().Add(2 * d.period())}
	var ops []*quorum.Operation
	for _, h := range hops {
		ops = append(ops, d.question(h.at, protocol.PutNonce(h.at, w.Wait, w.found.nonce, d.life())))
	}
	d.mu.Unlock()
	for _, op := range ops {
		d.await(op)
	}
}

func (d *Detector) ringOf(w *nestedWait) *ring {
	d.mu.Lock()
	defer d.mu.Unlock()
	return w.found
}

// prove ends the waits of whose rings all have given a sign of life by now.
func (d *Detector) prove(waits []*nestedWait) {
	for _, w := range waits {
		switch r := d.ringOf(w); {
		case r == nil:
			continue
		case d.proved(r):
			if w.goesOn() {
				w.end(d.Words(d.links(w, r)))
			}
		case d.Board.Clock.Now() < r.gone: // otherwise a wait of the ring has ended, or its messages are lost
			continue
		}
		d.mu.Lock()
		d.forget(w)
		d.mu.Unlock()
	}
}

// proved reads the edges of a ring once more, and reports whether all have echoed the nonce by now.
func (d *Detector) proved(r *ring) bool {
	at := make([]string, len(r.hops))
	for i, h := range r.hops {
		at[i] = h.at
	}
	all := true
	for i, sights := range d.ask(at, protocol.ReadWaits) {
		h := r.hops[i]
		for _, s := range sights {
			for _, e := range s.Edges {
				h.echoed = h.echoed || e.Wait == h.Wait && slices.Contains(e.Echo, r.nonce)
			}
		}
		all = all && h.echoed
	}
	return all
}

// forget takes the nonces of a wait's ring away. d.mu is held.
func (d *Detector) forget(w *nestedWait) {
	if w.found == nil {
		return
	}
	for _, h := range w.found.hops {
		d.question(h.at, protocol.DropNonce(h.at, w.Wait))
	}
	w.found = nil
}

// links are the parts of a ring: the hops from this wait back to itself.
func (d *Detector) links(w *nestedWait, r *ring) []Link {
	own := w.under[w.blocks(&r.hops[len(r.hops)-1].Edge)]
	name := func(key string) string { return strings.TrimPrefix(key, d.Prefix) }
	all := []Link{{Holds: name(own.Key), WaitsFor: name(r.hops[0].at), Owner: protocol.Owner(own.Hold.Token)}}
	for i, h := range r.hops {
		link := Link{Holds: name(h.at), WaitsFor: name(own.Key), Owner: h.Owner}
		if i+1 < len(r.hops) {
			link.WaitsFor = name(r.hops[i+1].at)
		}
		all = append(all, link)
	}
	return all
}

// ask asks all nodes about keys, and returns their answers for each key.
func (d *Detector) ask(keys []string, what func(key string) []driver.Command) (sights [][]protocol.Sight) {
	ops := make([]*quorum.Operation, len(keys))
	for i, key := range keys {
		ops[i] = d.question(key, what(key))
	}
	for _, op := range ops {
		sights = append(sights, d.await(op))
	}
	return sights
}

// question asks all nodes about the edges beside a key. It waits for no lock on the key.
func (d *Detector) question(key string, cmds []driver.Command) *quorum.Operation {
	op := d.Board.About(strings.TrimPrefix(key, d.Prefix)+" waits", protocol.Waits)
	op.Full, op.Key, op.Cmds = make(chan struct{}), key, cmds
	if !op.AskAll() {
		return nil
	}
	return op
}

// await returns the nodes' answers, once a quorum or all have answered.
func (d *Detector) await(op *quorum.Operation) (sights []protocol.Sight) {
	if op == nil { // the Locker is being closed
		return nil
	}
	select {
	case <-op.Done:
	case <-d.Board.Closing:
	}
	op.AwaitMore(context.Background())
	for i, v := range op.Tally().Votes {
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
