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

// A Config is what a Locker gives its detector.
type Config struct {
	Board  *quorum.Board
	After  time.Duration           // how long a wait takes until a ring is looked for
	Prefix string                  // of the Locker's keys
	Name   string                  // of its edges
	Start  func(do func()) bool    // runs it in a goroutine, unless the Locker is closed
	Words  func(ring []Link) error // the error of a wait in a ring
}

// A Link is one part of a ring: whoever holds the one key waits for the other, which the next holds.
type Link struct{ Holds, WaitsFor, Owner string }

// A Detector looks for rings through the waits of a Locker that work under locks.
//
// It puts an edge beside each key that is held so, for each such wait: all that are beside one key
// at once, again and again while waits and locks go on. From a wait it walks along the edges of all
// Lockers, from the key that is waited for. If it comes back to a key that the wait works under,
// and no wait on the way is younger, it puts a nonce beside each key on the way. Who puts edges
// there anew reads the nonce, and echoes it with the next ones. If all have, each of them has gone
// on since the walk was over. So when it was, all of them waited, and held what the others waited
// for.
//
// Each key of a ring is waited for, and who waits listens for its release. So a node is asked first who does,
// of all keys at once, and nothing else is done for a wait that holds nothing which others want.
//
// An edge that runs late tells nothing: its echo was written before it left.
type Detector struct {
	Config
	blind []atomic.Bool // by node: it was reported that it keeps no edges
	turn  int           // which node tells next who listens: that of the goroutine which puts edges

	mu       sync.Mutex
	waits    map[*nestedWait]struct{}
	beside   map[string]*edgeSet // by the key as the nodes know it
	runs     bool
	edgesDue chan struct{} // that there are new edges to put
	waitsDue chan struct{} // that there are new waits to look at
}

// A nestedWait is a wait under the context of locks, and old enough.
type nestedWait struct {
	protocol.Edge                 // but for what the locks are
	ctx           context.Context //nolint:containedctx // that of the wait
	began         clockdrift.Instant
	under         []Footing
	end           func(error)        // ends the wait
	look          clockdrift.Instant // when to look for a ring through it
	found         *ring              // Detector.mu guards it
}

// New returns a detector that looks for nothing yet.
func New(c Config) *Detector {
	return &Detector{
		Config: c, blind: make([]atomic.Bool, len(c.Board.Nodes)),
		waits: make(map[*nestedWait]struct{}), beside: make(map[string]*edgeSet), edgesDue: make(chan struct{}, 1), waitsDue: make(chan struct{}, 1),
	}
}

// A Footing is one key that is held while a wait goes on.
type Footing struct {
	Hold *quorum.Hold
	Key  string // as the nodes know it
}

// shares reports whether the key is held beside others.
func (f Footing) shares() bool { return f.Hold.Kind.Joins }

// Watch looks for rings through a wait for keys, as the nodes know them, once it has taken some time,
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

// remove ends that. The last wait under a key takes the edges away; those of others may be there
// until they are put anew.
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

// pause waits from a round until the next one: at a moment, or for news. Rounds begin an eighth of
// a period apart at least.
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

// going returns the dated waits that go on, as do all locks that they work under, and that may be part of a ring.
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
