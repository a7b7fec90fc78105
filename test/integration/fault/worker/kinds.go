package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/fault/history"
	"github.com/quorumlock/quorumlock/test/integration/fault/note"
)

// The kinds of locks that a job may mix.
const (
	exclusive = "exclusive"
	shared    = "shared"
	several   = "several" // keys, all or none
	permit    = "permit"  // one slot of a semaphore
	pair      = "permits" // two slots of one
	convert   = "convert" // shared and alone in turns, again and again
	own       = "own"     // by tokens of the callers' own, at one instant
	instant   = "instant" // at one instant, without waiting: a job that one of several hosts must do
)

// Kinds returns the kinds that the job may mix: all, but that nobody deletes a token of a caller's
// own that did not get the lock, and so the lease of its votes has to end.
func (j Job) Kinds() []string {
	kinds := []string{exclusive, shared, several, permit, pair, convert, instant}
	if !j.Tidy() {
		kinds = append(kinds, own)
	}
	return kinds
}

// permits is the number of each semaphore's permits, of which there are so many.
const (
	permits    = 3
	semaphores = 16
)

// converted is how many keys have their locks converted: so few that readers are seldom alone.
const converted = 8

// instants is the time between two at which workers of all processes ask for new keys.
const instants = 100 * time.Millisecond

// Crowd is what the names of keys begin with that sets have.
const Crowd = "part-"

// heavy is how many of them some want at once.
const heavy = 2

// errSlot is a permit that no holder may have.
var errSlot = errors.New("slot-out-of-range")

// A grant is a lock of any kind, and what it holds.
type grant struct {
	lock
	keys   []string // each a tenure of its own
	shared bool
}

// ask asks for a lock of the kind. The key is one that others ask for alone, unless the kind has
// keys of its own.
func (q quorumlock) ask(ctx context.Context, kind, key string, how manner) (grant, error) {
	options := q.options(how)
	if how == try {
		options = append(options, redlock.WithMaxWait(0))
	}
	switch kind {
	case shared:
		l, err := guarded(func() (*redlock.Lock, error) { return q.AcquireShared(ctx, key, options...) })
		if err != nil {
			return grant{}, err
		}
		return grant{l, []string{key}, true}, nil
	case own:
		options = append(options, redlock.WithToken(rand.Text()))
		l, err := concrete(guarded(func() (*redlock.Lock, error) { return q.Acquire(ctx, key, options...) }))
		return grant{l, []string{key}, false}, err
	case several:
		keys := q.keys(key)
		l, err := guarded(func() (*redlock.Lock, error) { return q.AcquireAll(ctx, keys, options...) })
		if err != nil {
			return grant{}, err
		}
		return grant{l, keys, false}, nil
	case permit, pair:
		s, err := q.Semaphore(key, permits)
		if err != nil {
			return grant{}, err
		}
		many := 1
		take := func() (*redlock.Lock, error) { return s.Acquire(ctx, options...) }
		if kind == pair {
			many, take = heavy, func() (*redlock.Lock, error) { return s.AcquireN(ctx, heavy, options...) }
		}
		l, err := guarded(take)
		if err != nil {
			return grant{}, err
		}
		var keys []string
		for _, slot := range l.Slots() {
			if slot >= 0 && slot < permits {
				keys = append(keys, fmt.Sprintf("%s#%d", key, slot))
			}
		}
		if len(keys) != many || len(l.Slots()) != many {
			return grant{}, errSlot
		}
		return grant{l, keys, false}, nil
	}
	l, err := q.acquire(ctx, key, how)
	return grant{l, []string{key}, false}, err
}

// ask asks for a lock of the kind, of which another library has exclusive ones.
func (w *worker) ask(ctx context.Context, kind, key string, how manner) (grant, error) {
	if q, ours := w.locks.(quorumlock); ours {
		return q.ask(ctx, kind, key, how)
	}
	l, err := w.locks.acquire(ctx, key, how)
	return grant{l, []string{key}, false}, err
}

// keys are those that a set of this name has: three of few, so that sets overlap.
func (quorumlock) keys(name string) []string {
	var n int
	_, _ = fmt.Sscanf(name, "set-%d", &n)
	const few = 96
	keys := []string{fmt.Sprint(Crowd, n%few), fmt.Sprint(Crowd, (n/3+1)%few), fmt.Sprint(Crowd, (n*7+5)%few)}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// mixed is one tenure of any kind, from the call to acquire it to its end.
func (w *worker) mixed(ctx context.Context) {
	kind, how, key := w.job.Locks[w.random.IntN(len(w.job.Locks))], wait, w.busyKey()
	switch kind {
	case several:
		key = fmt.Sprint("set-", w.random.IntN(1024))
	case permit, pair:
		key = fmt.Sprint("pool-", w.random.IntN(semaphores))
	case convert:
		key = fmt.Sprint("turn-", w.random.IntN(converted))
	case own, instant:
		key = w.newKey(ctx, kind)
	}
	mood := note.Patient
	switch lot := w.random.IntN(20); {
	case kind == instant:
		how, mood = try, note.Once
	case kind == own: // and wait
	case lot == 0:
		how, mood = try, note.Hasty
	case lot == 1:
		if kind != several || w.random.IntN(4) == 0 { // or a crowd waits for whoever keeps a set
			how = renew
		}
	}
	first := kind
	if kind == convert {
		first = []string{exclusive, shared}[w.random.IntN(2)]
	}
	w.pen.Asked(w.id, key, mood)
	g, err := w.ask(ctx, first, key, how)
	if err != nil {
		w.pen.Failed(w.id, name(err))
		return
	}
	w.had(g)
	if how == renew {
		w.keep(ctx, g)
	} else {
		w.use(ctx, g)
	}
	for times := w.random.IntN(4); kind == convert && times >= 0; times-- {
		var held bool
		if g, held = w.convert(ctx, g); !held {
			_ = g.Release() // its tenure is over
			return
		}
	}
	if w.job.Tidy() || how == renew || g.shared || w.random.IntN(200) > 0 { // or nobody releases it, and its lease ends
		w.release(g)
	}
}

// newKey waits for the next instant, and returns a key that nobody had before: one of so few that
// in the mean as many workers ask for it as there are processes.
func (w *worker) newKey(ctx context.Context, kind string) string {
	next := note.Now()/history.Moment(instants) + 1
	rest(ctx, time.Duration(next*history.Moment(instants)-note.Now()))
	return fmt.Sprintf("%s-%d-%d", kind, next, w.random.IntN(max(1, w.job.Workers/len(w.job.Locks))))
}

// had notes what was granted.
func (w *worker) had(g grant) {
	w.pen.Holds(w.id, g.shared, g.keys...)
	w.pen.Had(w.id, note.At(g.Until()), g.Fence())
}

// use works under a lock for a moment, and extends it now and then.
func (w *worker) use(ctx context.Context, g grant) {
	if !g.shared { // a reader changes nothing
		w.change(ctx, g.keys[0], g, w.upTo(10*time.Millisecond))
	} else {
		rest(ctx, w.upTo(10*time.Millisecond))
	}
	if w.random.IntN(20) == 0 && g.Extend(context.WithoutCancel(ctx), w.job.Lease) == nil {
		w.pen.Extended(w.id, note.At(g.Until()))
	}
}

// keep works under a lock that is renewed, for longer than a lease.
func (w *worker) keep(ctx context.Context, g grant) {
	for left := w.job.Pace() + w.upTo(w.job.Pace()/2); left > 0 && ctx.Err() == nil && g.Valid(); {
		pause := 1 + w.upTo(w.job.Pace()/4)
		rest(ctx, pause)
		left -= pause
	}
	if !g.Valid() {
		w.pen.Lost(w.id, note.At(g.Until()), whyLost(g.lock)) //nolint:contextcheck // the lock's own context says it
		return
	}
	w.pen.Extended(w.id, note.At(g.Until()))
}

// convert shares a lock that was held alone, or has one alone that was shared if it can. The first
// tenure ends with the call, and the second begins with its return, if it is held then.
func (w *worker) convert(ctx context.Context, g grant) (next grant, held bool) {
	w.pen.Ended(w.id, note.At(g.Until()))
	w.pen.Freed(w.id)
	w.pen.Asked(w.id, g.keys[0], note.Hasty)
	next = grant{keys: g.keys, shared: !g.shared}
	var err error
	if l, ours := g.lock.(*redlock.Lock); ours {
		turn := l.Downgrade
		if g.shared {
			turn = l.TryUpgrade
		}
		limit := time.Hour
		if w.random.IntN(3) == 0 { // some of the nodes are not asked any more
			limit = w.upTo(8 * time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		var other *redlock.Lock
		if other, err = guarded(func() (*redlock.Lock, error) { return turn(ctx) }); other != nil {
			next.lock, err = other, nil
		}
		cancel()
	}
	if err != nil {
		next = g // as it was, if it still is
	}
	if err != nil && !g.shared { // the same hold goes on, by the same fence, and is no other tenure
		w.pen.Failed(w.id, name(err))
		return next, false
	}
	if !next.Valid() {
		w.pen.Failed(w.id, "lost")
		return next, false
	}
	w.had(next)
	w.use(ctx, next)
	return next, true
}
