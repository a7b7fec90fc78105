// Package worker is a client's process: its workers take locks, visit what these
// protect, and note down what they do.
package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/note"
	"github.com/quorumlock/quorumlock/test/integration/fault/register"
)

// A worker does one thing after another.
type worker struct {
	job    Job
	id     int
	locks  locks
	store  *register.Client
	pen    *note.Pen
	random *rand.Rand
	visits int
}

// A Mix says how many of a thousand tenures are of a kind. The others are patient, and over
// as soon as their visit is.
type Mix struct {
	Cancelled int // their caller gives up after a moment
	Hasty     int // do not wait
	Slow      int // take their time between looking and writing
	Extended  int
	Renewed   int // for some leases
	Abandoned int // nobody releases them
}

// Ordinary is a mix with a little of everything.
var Ordinary = Mix{Cancelled: 30, Hasty: 30, Slow: 50, Extended: 40, Renewed: 5, Abandoned: 5}

// Careless is a mix of holders that keep a lock for so long that whoever breaks in meets
// somebody.
var Careless = Mix{Slow: 500, Abandoned: 50}

// Long is a mix of holders of which many have their locks renewed.
var Long = Mix{Slow: 200, Renewed: 300}

func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		if len(w.job.Locks) > 0 {
			w.mixed(ctx)
		} else {
			w.tenure(ctx, w.random.IntN(1000))
		}
	}
}

// tenure is one lock, from the call to acquire it to its end. The lot says what it is
// like.
func (w *worker) tenure(ctx context.Context, lot int) {
	below := func(share int) bool { lot -= share; return lot < 0 }
	var (
		mix     = w.job.Mix
		mood    = note.Patient
		manner  = wait
		caller  = ctx
		stay    = w.visit
		release = true
		key     = w.busyKey()
	)
	switch {
	case below(mix.Cancelled):
		given, cancel := context.WithTimeout(ctx, w.upTo(15*time.Millisecond))
		defer cancel()
		caller, mood = given, note.Hasty
	case below(mix.Hasty):
		manner, mood = try, note.Hasty
	case below(mix.Slow):
		stay = w.ponder
	case below(mix.Extended):
		stay = w.extend
	case below(mix.Renewed):
		manner, stay, key = renew, w.stay, w.anyKey()
	case below(mix.Abandoned):
		release, key = w.job.Tidy(), w.anyKey()
	}
	w.pen.Asked(w.id, key, mood)
	lock, err := w.locks.acquire(caller, key, manner)
	if err != nil {
		w.pen.Failed(w.id, name(err))
		return
	}
	w.pen.Had(w.id, note.At(lock.Until()), lock.Fence())
	stay(ctx, key, lock)
	if release {
		w.release(lock)
	}
}

func (w *worker) release(lock lock) {
	w.pen.Ended(w.id, note.At(lock.Until()))
	if !w.job.lacks("releases") || w.random.IntN(releases) > 0 {
		_ = lock.Release() // it may be lost by then
	}
	w.pen.Freed(w.id)
}

// anyKey is one of all keys, for who keeps it long.
func (w *worker) anyKey() string { return w.keyBelow(w.job.Keys) }

// busyKey is in one of four cases a key that many contend for.
func (w *worker) busyKey() string {
	const busy = 8
	if w.random.IntN(4) == 0 {
		return w.keyBelow(min(busy, w.job.Keys))
	}
	return w.anyKey()
}

func (w *worker) keyBelow(n int) string { return fmt.Sprint("key-", w.random.IntN(n)) }

// visit changes the register. It does not look whether the lock still holds: it may end
// between the look and the visit anyway.
func (w *worker) visit(ctx context.Context, key string, lock lock) {
	w.change(ctx, key, lock, 0)
}

// ponder is a visit that takes a while between its look and its write.
func (w *worker) ponder(ctx context.Context, key string, lock lock) {
	w.change(ctx, key, lock, w.upTo(50*time.Millisecond))
}

func (w *worker) change(ctx context.Context, key string, lock lock, thought time.Duration) {
	called := note.Now()
	found, err := w.store.Read(key, lock.Fence())
	if err != nil {
		return
	}
	if thought > 0 {
		rest(ctx, thought)
	}
	w.visits++
	left := fmt.Sprint(w.job.Name, "/", w.id, ".", w.visits)
	w.pen.Visiting(w.id, called, found, left)
	switch err := w.store.Write(key, lock.Fence(), left); {
	case err == nil:
		w.pen.Returned(w.id)
	case stale(err):
		w.pen.Refused(w.id)
	}
}

// extend visits twice, and extends the lock in between.
func (w *worker) extend(ctx context.Context, key string, lock lock) {
	w.visit(ctx, key, lock)
	rest(ctx, w.upTo(20*time.Millisecond))
	if lock.Extend(context.WithoutCancel(ctx), w.job.Lease) == nil {
		w.pen.Extended(w.id, note.At(lock.Until()))
	}
	w.visit(ctx, key, lock)
}

// stay visits again and again, for longer than a lease.
func (w *worker) stay(ctx context.Context, key string, lock lock) {
	for left := w.job.Pace() + w.upTo(2*w.job.Pace()); left > 0 && ctx.Err() == nil && lock.Valid(); {
		w.visit(ctx, key, lock)
		pause := w.upTo(w.job.Pace() / 2)
		rest(ctx, pause)
		left -= pause
	}
	if !lock.Valid() {
		w.pen.Lost(w.id, note.At(lock.Until()), whyLost(lock)) //nolint:contextcheck // the lock's own context says it
	}
}

func (w *worker) upTo(most time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(most)))
}

// rest is a part of the work: it takes time.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Rushed is the key that a rush is for.
const Rushed = "rushed"

const (
	triesEach   = time.Millisecond
	triesAtOnce = 2
	triesMost   = 4096 // that are under way
)

// rush has a process try for one key again and again, however long the answers take, and
// hold it most of the time if hold. What it returns ends that, and notes how many tries there
// were.
func rush(ctx context.Context, employ func(id int) *worker, hold bool) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	first := employ(0).job.Workers // those before are at work
	var (
		running sync.WaitGroup
		count   atomic.Int64
		idle    = make(chan *worker, triesMost)
	)
	if hold {
		w := employ(first)
		running.Go(func() { w.hold(ctx) })
	}
	for i := range triesMost {
		idle <- employ(first + 1 + i)
	}
	running.Go(func() {
		ticker := time.NewTicker(triesEach)
		defer ticker.Stop()
		for ctx.Err() == nil {
			for range triesAtOnce {
				select {
				case w := <-idle:
					running.Go(func() {
						count.Add(1)
						w.try(ctx)
						idle <- w
					})
				default:
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		stop()
		running.Wait()
		employ(first).pen.Tried(count.Load())
	}
}

// hold has the key most of the time.
func (w *worker) hold(ctx context.Context) {
	for ctx.Err() == nil {
		w.pen.Asked(w.id, Rushed, note.Hasty)
		lock, err := w.locks.acquire(ctx, Rushed, renew)
		if err != nil {
			w.pen.Failed(w.id, name(err))
			rest(ctx, 10*time.Millisecond)
			continue
		}
		w.pen.Had(w.id, note.At(lock.Until()), lock.Fence())
		w.stay(ctx, Rushed, lock)
		w.release(lock)
	}
}

// try asks for the key once, and releases it if it has got it. Only then it makes notes.
func (w *worker) try(ctx context.Context) {
	asked := note.Now()
	lock, err := w.locks.acquire(ctx, Rushed, try)
	if err != nil {
		return
	}
	w.pen.AskedAt(asked, w.id, Rushed, note.Hasty)
	w.pen.Had(w.id, note.At(lock.Until()), lock.Fence())
	w.release(lock)
}
