package deadlock

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// An edgeSet is the edges of the Locker's waits under the locks on one key.
type edgeSet struct {
	waits  int                // that have the key
	due    clockdrift.Instant // when to put them anew, or to ask again who wants the key
	wanted clockdrift.Instant // until then somebody may wait for the key; 0: nobody does
	echo   []string
}

// wanted reports whether somebody may wait for a key that is held. d.mu is held.
func (d *Detector) wanted(f Footing) bool {
	e := d.beside[f.Key]
	return e != nil && e.wanted > d.Board.Clock.Now()
}

// maxAsked is of how many keys one command asks.
const maxAsked = 256

// learn asks one node which of the keys whose edges are due somebody waits for, and of all that nobody did wait for. The
// nodes take turns, so that one which a waiter cannot listen to hides it for a period. Where none tells, all keys may be wanted.
func (d *Detector) learn() {
	now, next, some, due := d.Board.Clock.Now(), d.in(1), false, make(map[string]*edgeSet)
	d.mu.Lock()
	for key, e := range d.beside {
		if some = some || now >= e.due; now >= e.due || e.wanted == 0 {
			due[key] = e
		}
	}
	d.mu.Unlock()
	if !some {
		return
	}
	tells := d.teller()
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(due)), maxAsked) {
		wanted := d.listening(tells, keys)
		d.mu.Lock()
		for i, key := range keys {
			e := due[key]
			if wanted == nil || wanted[i] {
				e.wanted = d.in(float64(len(d.Board.Nodes) + 1))
				wake(d.waitsDue)
			} else if e.wanted <= now {
				e.wanted, e.due = 0, next
			}
		}
		d.mu.Unlock()
	}
}

// teller is the next node that can tell who listens; nil: none can.
func (d *Detector) teller() *node.Node {
	for range d.Board.Nodes {
		d.turn++
		if n := d.Board.Nodes[d.turn%len(d.Board.Nodes)]; n.Announces() {
			return n
		}
	}
	return nil
}

// listening returns for which of the keys somebody listens at the node; nil: nobody can tell.
func (d *Detector) listening(at *node.Node, keys []string) []bool {
	if at == nil {
		return nil
	}
	op := d.Board.About(strings.TrimPrefix(keys[0], d.Prefix)+" waits", protocol.Listening)
	op.Cmds = protocol.AskListening(keys)
	if !op.AskOf([]*node.Node{at}, 1) {
		return nil
	}
	op.Await(context.Background(), d.Board.Closing)
	if op.Verdict != lease.Carried {
		return nil
	}
	return op.Tally().Votes[0].Reply.Listeners(len(keys))
}

// period is how often edges are put anew.
func (d *Detector) period() time.Duration { return d.After / 2 }

// life is how long edges and a nonce stay that are not put anew: two messages may be lost, and the
// node then be looked at before the third one leaves.
func (d *Detector) life() time.Duration { return 4 * d.period() }

// in is a moment about one period from now, or so many.
func (d *Detector) in(periods float64) clockdrift.Instant {
	period := time.Duration(periods * float64(d.period()))
	return d.Board.Clock.Now().Add(period*3/4 + d.Board.Jitter(period/4))
}

// tell puts edges, and search looks for rings, until the Locker is closed. A search that waits for
// slow nodes keeps no edges from being put.
func (d *Detector) tell() {
	for !d.Board.Closed() {
		began := d.Board.Clock.Now()
		d.learn()
		if d.date(); d.publish() { // who asks for an echo gets it at once
			d.publish()
		}
		next := clockdrift.Instant(math.MaxInt64)
		d.mu.Lock()
		for _, e := range d.beside {
			next = min(next, e.due)
		}
		d.mu.Unlock()
		d.pause(began, next, d.edgesDue)
	}
}

// publish puts edges that are due. It reports whether there is a nonce that was not echoed yet.
func (d *Detector) publish() (asked bool) {
	for e, op := range d.put() {
		echo := make(map[string]bool)
		news := false
		for _, s := range d.await(op) {
			for _, nonce := range s.Nonces {
				echo[nonce] = true
				news = news || !slices.Contains(e.echo, nonce)
			}
		}
		d.mu.Lock()
		e.echo = slices.Sorted(maps.Keys(echo))
		if news {
			e.due = d.Board.Clock.Now()
		}
		d.mu.Unlock()
		asked = asked || news
	}
	return asked
}

// put sends the edges that are due. It returns how; nil: there are none, or the Locker is being
// closed.
func (d *Detector) put() map[*edgeSet]*quorum.Operation {
	d.mu.Lock() // so that what takes edges away goes out behind them
	defer d.mu.Unlock()
	now, due, all := d.Board.Clock.Now(), make(map[string]*edgeSet), make(map[string][]protocol.Edge)
	for key, e := range d.beside {
		if now >= e.due && e.wanted != 0 {
			due[key] = e
		}
	}
	if len(due) == 0 {
		return nil
	}
	for w := range d.waits {
		if w.Since == 0 || !w.goesOn() {
			continue
		}
		for _, f := range w.under {
			if due[f.Key] != nil {
				e := w.Edge
				e.Shares, e.Owner = f.shares(), protocol.Owner(f.Hold.Token)
				all[f.Key] = append(all[f.Key], e)
			}
		}
	}
	put := make(map[*edgeSet]*quorum.Operation)
	for key, e := range due {
		e.due, put[e] = d.in(1), nil
		if of := all[key]; len(of) > 0 {
			slices.SortFunc(of, protocol.Edge.Compare)
			put[e] = d.question(key, protocol.PutEdges(key, d.Name, of, e.echo, d.life()))
		}
	}
	return put
}
