package deadlock

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// An edgeSet is the edges of the Locker's waits under the locks on a key.
type edgeSet struct {
	waits  int                // the waits that hold the key
	due    clockdrift.Instant // when to put the edges anew, or to ask again for waiters of the key
	wanted clockdrift.Instant // until then somebody may wait for the key; 0: nobody does
	echo   []string
}

// wanted reports whether somebody may wait for the held key. d.mu is held.
func (d *Detector) wanted(f Footing) bool {
	e := d.beside[f.Key]
	return e != nil && e.wanted > d.Board.Clock.Now()
}

// maxAsked is the number of keys in one command.
const maxAsked = 256

// learn asks a node which of the keys with due edges have waiters, and all keys that had none. The nodes
// take turns, so that a node which a waiter cannot listen to hides the waiter for a period only. Where no
// node tells, all keys may be wanted.
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
		wanted := d.Board.Listening(tells, keys)
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

// teller is the next node that can tell of listeners; nil: none can.
func (d *Detector) teller() *node.Node {
	for range d.Board.Nodes {
		d.turn++
		if n := d.Board.Nodes[d.turn%len(d.Board.Nodes)]; n.Announces() {
			return n
		}
	}
	return nil
}

// period is how often edges are put anew.
func (d *Detector) period() time.Duration { return d.After / 2 }

// life is how long edges and a nonce stay without being put anew: two messages may be lost, and the third one comes
// late. Before each message a node is asked for waiters, which takes a round trip. One period more is for nodes that are
// slower than at their best, which Trip is.
func (d *Detector) life() time.Duration { return 5*d.period() + 4*d.Board.Trip() }

// in is a moment about n periods from now.
func (d *Detector) in(periods float64) clockdrift.Instant {
	period := time.Duration(periods * float64(d.period()))
	return d.Board.Clock.Now().Add(period*3/4 + d.Board.Jitter(period/4))
}

// tell puts edges, and search looks for rings, until the Locker is closed. A search that waits for slow
// nodes delays no edges.
func (d *Detector) tell() {
	for !d.Board.Closed() {
		began := d.Board.Clock.Now()
		d.learn()
		if d.date(); d.publish() { // a nonce is echoed at once
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

// publish puts due edges. It reports whether there is a nonce without an echo.
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

// put sends the due edges. It returns the operation; nil: no edges are due, or the Locker is closing.
func (d *Detector) put() map[*edgeSet]*quorum.Operation {
	d.mu.Lock() // commands that take edges away go out behind these
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
