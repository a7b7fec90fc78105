// Package deadlock finds rings of waits of several processes: edge chasing, by edges that are kept
// beside keys at the nodes (Chandy, Misra and Haas, Distributed deadlock detection, ACM TOCS 1983).
package deadlock

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// A Config is a Locker's settings for its detector.
type Config struct {
	Board  *quorum.Board
	After  time.Duration           // how long a wait takes until a ring is looked for
	Prefix string                  // of the Locker's keys
	Name   string                  // of its edges
	Start  func(do func()) bool    // a goroutine, unless the Locker is closed
	Words  func(ring []Link) error // the error of a wait in a ring
}

// A Link is a part of a ring: the holder of the one key waits for the other, which the next holder has.
type Link struct{ Holds, WaitsFor, Owner string }

// A Detector looks for rings through the waits of a Locker that work under locks.
//
// The detector puts an edge beside each key that such a wait holds: all edges of a key at once, again and
// again while waits and locks go on. From a wait, a walk follows the edges of all Lockers, from the wanted
// key. If the walk comes back to a key of the wait's own, and no wait on the way is younger, the walk puts a
// nonce beside each key on the way. A Locker that puts its edges there anew reads the nonce, and echoes it
// with the next edges. If all Lockers echo, each wait has gone on since the walk was over: at that moment
// all waited, and held the keys that the others wanted.
//
// Each key of a ring is waited for, and its waiter listens for its release. So one node is asked first which
// keys have listeners, for all keys at once, and nothing else is done for a wait whose keys nobody wants.
//
// A late edge tells nothing: its echo was written before it left.
type Detector struct {
	Config
	blind []atomic.Bool // by node: a report said that the node keeps no edges
	turn  int           // the node to ask next for listeners; for the goroutine that puts edges

	mu       sync.Mutex
	waits    map[*nestedWait]struct{}
	beside   map[string]*edgeSet // by the nodes' name of the key
	runs     bool
	edgesDue chan struct{} // there are new edges to put
	waitsDue chan struct{} // there are new waits to look at
}

// A nestedWait is a wait under the context of locks, and old enough.
type nestedWait struct {
	protocol.Edge                 // without the types of the locks
	ctx           context.Context //nolint:containedctx // of the wait
	began         clockdrift.Instant
	under         []Footing
	end           func(error)        // ends the wait
	look          clockdrift.Instant // when to look for a ring through the wait
	found         *ring              // guarded by Detector.mu
}

// New returns an idle detector.
func New(c Config) *Detector {
	return &Detector{
		Config: c, blind: make([]atomic.Bool, len(c.Board.Nodes)),
		waits: make(map[*nestedWait]struct{}), beside: make(map[string]*edgeSet), edgesDue: make(chan struct{}, 1), waitsDue: make(chan struct{}, 1),
	}
}

// A Footing is a key that is held while a wait goes on.
type Footing struct {
	Hold *quorum.Hold
	Key  string // the nodes' name
}

// shares reports whether others may hold the key, too.
func (f Footing) shares() bool { return f.Hold.Kind.Joins }

// Watch looks for rings through a wait for keys, by the nodes' names, once the wait has taken some time,
// until it is stopped. End ends the wait.
func (d *Detector) Watch(ctx context.Context, under []Footing, keys []string, reads bool, end func(error)) (stop func()) {
	w := &nestedWait{Edge: protocol.Edge{Wait: d.Board.Random.Nonce(), Reads: reads, Keys: keys}, began: d.Board.Clock.Now(), under: under, end: end}
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(ctx)
	timer := time.AfterFunc(d.After, func() { d.add(w) })
	return func() {
		timer.Stop()
		cancel()
		d.remove(w)
	}
}

// add begins to look for rings through a wait.
func (d *Detector) add(w *nestedWait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	d.waits[w] = struct{}{}
	now := d.Board.Clock.Now()
	for _, f := range w.under {
		e := d.beside[f.Key]
		if e == nil {
			e = new(edgeSet)
			d.beside[f.Key] = e
		}
		e.waits++
		e.due = now
	}
	if !d.runs {
		d.runs = d.Start(d.tell) && d.Start(d.search)
	}
	wake(d.edgesDue)
}

// wake sends news, unless there are some already.
func wake(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// remove ends Watch. The last wait under a key takes the Locker's edges away; edges of other waits may be
// there until the next put.
func (d *Detector) remove(w *nestedWait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := d.waits[w]; !there {
		return
	}
	delete(d.waits, w)
	d.forget(w)
	for _, f := range w.under {
		e := d.beside[f.Key]
		if e.waits--; e.waits == 0 {
			delete(d.beside, f.Key)
			d.question(f.Key, protocol.DropEdges(f.Key, d.Name))
		}
	}
}

func (d *Detector) search() {
	for !d.Board.Closed() {
		began := d.Board.Clock.Now()
		waits := d.going()
		d.prove(waits)
		d.walk(waits)
		next := clockdrift.Instant(math.MaxInt64)
		d.mu.Lock()
		for _, w := range waits {
			if w.found != nil {
				next = min(next, began.Add(d.period()/8))
			}
			next = min(next, w.look)
		}
		d.mu.Unlock()
		d.pause(began, next, d.waitsDue)
	}
}

// pause waits from a round until the next one: for a moment, or for news. Rounds begin at least an eighth of
// a period apart.
func (d *Detector) pause(began, next clockdrift.Instant, news chan struct{}) {
	now := d.Board.Clock.Now()
	timer := time.NewTimer(max(1, time.Duration(next-now)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-news:
	case <-d.Board.Closing:
	}
	d.Board.Rest(context.Background(), max(0, began.Add(d.period()/8).Sub(d.Board.Clock.Now())))
}

// going returns the dated waits that go on, with all locks that they work under, and that may be part of a
// ring.
func (d *Detector) going() (waits []*nestedWait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waits {
		if w.Since != 0 && w.goesOn() && (w.found != nil || slices.ContainsFunc(w.under, d.wanted)) {
			waits = append(waits, w)
		}
	}
	return waits
}

// goesOn reports whether the wait and all locks that it works under go on.
func (w *nestedWait) goesOn() bool {
	return w.ctx.Err() == nil && !slices.ContainsFunc(w.under, func(f Footing) bool { return f.Hold.Rest() <= 0 })
}

// date dates new waits by the nodes' clocks.
func (d *Detector) date() {
	var undated []*nestedWait
	d.mu.Lock()
	for w := range d.waits {
		if w.Since == 0 {
			undated = append(undated, w)
		}
	}
	d.mu.Unlock()
	if len(undated) == 0 {
		return
	}
	key := undated[0].under[0].Key
	var times []int64
	for _, s := range d.await(d.question(key, protocol.ReadWaits(key))) {
		times = append(times, s.Micros)
	}
	if len(times) < d.Board.Quorum {
		return
	}
	slices.Sort(times)
	d.mu.Lock()
	for _, w := range undated {
		w.Since = times[len(times)/2] - d.Board.Clock.Now().Sub(w.began).Microseconds()
	}
	d.mu.Unlock()
	wake(d.waitsDue)
}
