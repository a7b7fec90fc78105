package redlock

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// WithDeadlockDetection finds rings of locks of several processes, each of whose work waits for the
// next: a wait that has taken longer than after, under the [Lock.Context] of another lock, is told to
// the nodes, and followed from lock to lock. Of a ring the youngest wait fails, with a [DeadlockError]
// that names keys and owners ([WithOwner]), as a rule within twice the time and with a lost message
// within three times. Rings within one Locker are found at once, without the option.
//
// All Lockers whose locks may be part of a ring need the option, with the same time: 100ms to a minute.
// One second is a good value. Nothing is sent before that time. Then a Locker costs a node a script for
// each key under whose lock anybody waits, and one for each key that is waited for so, each half of the
// time; for the latter less often as the waits grow older, down to every other time. So 1,000 waits
// cost less than one percent of a node.
//
// A wait that fails was part of a ring: all of its waits went on at one moment, and all of its locks
// were held. Not found are rings through the permits of a [Semaphore], through readers who wait behind
// a writer that waits, through contexts that carry no lock (see [Detach]), and those where a majority
// of the nodes does not answer. They end with a lease, or with [WithMaxWait]. Rings of more than 64
// locks, and of three and more through a lock under which more than 64 waits go on, may take longer to
// be found, or are not.
//
// The nodes must run scripts (+eval +evalsha), and keep ql:waits:{KEY}; [NodeLimited] says which do
// not. The keys need a hash tag, or no closing brace.
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

// A detector looks for rings through the waits of a Locker that work under locks.
//
// It puts an edge beside each key that is held so, for each such wait: all that are beside one key at
// once, again and again while waits and locks go on. From a wait it walks along the edges of all
// Lockers, from the key that is waited for. If it comes back to a key that the wait works under, and no
// wait on the way is younger, it puts a nonce beside each key on the way. Who puts edges there anew
// reads the nonce, and echoes it with the next ones. If all have, each of them has gone on since the
// walk was over. So when it was, all of them waited, and held what the others waited for.
//
// An edge that runs late tells nothing: its echo was written before it left.
type detector struct {
	*Locker
	name string // of the Locker's edges

	mu     sync.Mutex
	waits  map[*nestedWait]struct{}
	beside map[string]*edgeSet // by the key as the nodes know it
	runs   bool
	told   chan struct{} // that there are new edges to put
	dated  chan struct{} // that there are new waits to look at
}

// A nestedWait is a wait under the context of locks, and old enough.
type nestedWait struct {
	protocol.Edge                 // but for what the locks are
	ctx           context.Context //nolint:containedctx // that of the wait
	began         clockdrift.Instant
	under         []footing
	end           func(error)        // ends the wait
	look          clockdrift.Instant // when to look for a ring through it
	found         *ring              // detector.mu guards it
}

// A footing is one key that is held while the wait goes on.
type footing struct {
	*lease
	key    string // as the nodes know it
	shares bool
}

// An edgeSet is the edges of the Locker's waits under the locks on one key.
type edgeSet struct {
	waits int                // that have the key
	due   clockdrift.Instant // when to put them anew
	echo  []string
}

// detect looks for rings through a wait for keys, once it has taken some time, until it is stopped. End
// ends the wait.
func (l *Locker) detect(ctx context.Context, o *acquireOptions, keys []string, end func(error)) (stop func()) {
	if l.detector == nil || o.kind.slots != nil || ctx.Done() == nil {
		return func() {}
	}
	w := &nestedWait{began: l.clock.Now(), end: end}
	for _, held := range l.carries(ctx) {
		if held.places != nil {
			continue
		}
		for _, key := range held.attempt.Names() {
			w.under = append(w.under, footing{held, l.options.prefix + key, held.attempt.Kind.Joins})
		}
	}
	if len(w.under) == 0 {
		return func() {}
	}
	w.Wait, w.Reads = l.board.Random.Nonce(), o.kind.joins()
	for _, key := range keys {
		w.Keys = append(w.Keys, l.options.prefix+key)
	}
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(ctx)
	timer := time.AfterFunc(l.options.deadlocks, func() { l.detector.add(w) })
	return func() {
		timer.Stop()
		cancel()
		l.detector.remove(w)
	}
}

// add begins to look for rings through a wait.
func (d *detector) add(w *nestedWait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	d.waits[w] = struct{}{}
	now := d.clock.Now()
	for _, f := range w.under {
		e := d.beside[f.key]
		if e == nil {
			e = new(edgeSet)
			d.beside[f.key] = e
		}
		e.waits++
		e.due = now
	}
	if !d.runs {
		d.runs = d.work.start(d.tell) && d.work.start(d.search)
	}
	wake(d.told)
}

// wake sends news, unless there are some already.
func wake(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// remove ends that. The last wait under a key takes the edges away; those of others may be there until
// they are put anew.
func (d *detector) remove(w *nestedWait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := d.waits[w]; !there {
		return
	}
	delete(d.waits, w)
	d.forget(w)
	for _, f := range w.under {
		e := d.beside[f.key]
		if e.waits--; e.waits == 0 {
			delete(d.beside, f.key)
			d.question(f.key, protocol.DropEdges(f.key, d.name))
		}
	}
}

// period is how often edges are put anew.
func (d *detector) period() time.Duration { return d.options.deadlocks / 2 }

// life is how long edges and a nonce stay that are not put anew: two messages may be lost, and the node
// then be looked at before the third one leaves.
func (d *detector) life() time.Duration { return 4 * d.period() }

// in is a moment about one period from now, or so many.
func (d *detector) in(periods float64) clockdrift.Instant {
	period := time.Duration(periods * float64(d.period()))
	return d.clock.Now().Add(period*3/4 + d.board.Jitter(period/4))
}

// tell puts edges, and search looks for rings, until the Locker is closed. A search that waits for slow
// nodes keeps no edges from being put.
func (d *detector) tell() {
	for !d.closed() {
		began := d.clock.Now()
		if d.date(); d.publish() { // who asks for an echo gets it at once
			d.publish()
		}
		next := clockdrift.Instant(math.MaxInt64)
		d.mu.Lock()
		for _, e := range d.beside {
			next = min(next, e.due)
		}
		d.mu.Unlock()
		d.pause(began, next, d.told)
	}
}

func (d *detector) search() {
	for !d.closed() {
		began := d.clock.Now()
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
		d.pause(began, next, d.dated)
	}
}

// pause waits from a round until the next one: at a moment, or for news. Rounds begin an eighth of a
// period apart at least.
func (d *detector) pause(began, next clockdrift.Instant, news chan struct{}) {
	now := d.clock.Now()
	timer := time.NewTimer(time.Duration(next - now))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-news:
	case <-d.closing:
	}
	d.rest(context.Background(), max(0, began.Add(d.period()/8).Sub(d.clock.Now())))
}

// going returns the dated waits that go on, as do all locks that they work under.
func (d *detector) going() (waits []*nestedWait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waits {
		if w.Since != 0 && w.goesOn() {
			waits = append(waits, w)
		}
	}
	return waits
}

// goesOn reports whether the wait and all locks that it works under go on.
func (w *nestedWait) goesOn() bool {
	return w.ctx.Err() == nil && !slices.ContainsFunc(w.under, func(f footing) bool { return (attempt{f.lease}).Left() <= 0 })
}

// date dates new waits by the nodes' clocks.
func (d *detector) date() {
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
	key := undated[0].under[0].key
	var times []int64
	for _, s := range d.await(d.question(key, protocol.ReadWaits(key))) {
		times = append(times, s.Micros)
	}
	if len(times) < d.board.Quorum {
		return
	}
	slices.Sort(times)
	d.mu.Lock()
	for _, w := range undated {
		w.Since = times[len(times)/2] - d.clock.Now().Sub(w.began).Microseconds()
	}
	d.mu.Unlock()
	wake(d.dated)
}

// publish puts edges that are due. It reports whether there is a nonce that was not echoed yet.
func (d *detector) publish() (asked bool) {
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
			e.due = d.clock.Now()
		}
		d.mu.Unlock()
		asked = asked || news
	}
	return asked
}

// put sends the edges that are due. It returns how; nil: there are none, or the Locker is being closed.
func (d *detector) put() map[*edgeSet]*quorum.Operation {
	d.mu.Lock() // so that what takes edges away goes out behind them
	defer d.mu.Unlock()
	now, due, all := d.clock.Now(), make(map[string]*edgeSet), make(map[string][]protocol.Edge)
	for key, e := range d.beside {
		if now >= e.due {
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
			if due[f.key] != nil {
				e := w.Edge
				e.Shares, e.Owner = f.shares, protocol.Owner(f.attempt.Token)
				all[f.key] = append(all[f.key], e)
			}
		}
	}
	put := make(map[*edgeSet]*quorum.Operation)
	for key, e := range due {
		e.due, put[e] = d.in(1), nil
		if of := all[key]; len(of) > 0 {
			slices.SortFunc(of, protocol.Edge.Compare)
			put[e] = d.question(key, protocol.PutEdges(key, d.name, of, e.echo, d.life()))
		}
	}
	return put
}
