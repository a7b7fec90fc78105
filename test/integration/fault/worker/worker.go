// Package worker is a client's process: its workers take locks, visit what these
// protect, and note down what they do.
package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/note"
	"github.com/quorumlock/quorumlock/test/integration/fault/register"
)

// A Job is what a process has to do. It is its first order, as JSON.
type Job struct {
	Name     string   // of the process: a word
	Library  string   // "quorumlock" or "redsync"
	Client   string   // "goredis", "redigo" or "rueidis"
	Without  []string // "fences", "guard"
	Nodes    []string // where they are
	Register string   // where it is
	Workers  int
	Keys     int
	Lease    time.Duration
	Mix      Mix
	Seed     uint64
}

// A Farewell is a process's last word: what is left of it when it has closed all.
type Farewell struct {
	Error      string
	Goroutines string // the stacks of those that are left
	Sockets    int
}

// Serve does its job until it is told to stop, which is its second order, says its
// farewell, and returns when there are no more orders.
func Serve(ctx context.Context, orders io.Reader, notes io.Writer) error {
	lines := bufio.NewScanner(orders)
	if !lines.Scan() {
		return errors.New("there is no job")
	}
	var job Job
	if err := json.Unmarshal(lines.Bytes(), &job); err != nil {
		return err
	}
	before := remains()
	err := job.do(ctx, lines, notes)
	left := remains().since(before)
	if err != nil {
		left.Error = err.Error()
	}
	if err := json.NewEncoder(notes).Encode(left); err != nil {
		return err
	}
	for lines.Scan() { // the end of all orders
	}
	return lines.Err()
}

// do works until the next order.
func (j Job) do(ctx context.Context, orders *bufio.Scanner, notes io.Writer) error {
	locks, err := open(j)
	if err != nil {
		return err
	}
	store, err := register.Dial(j.Register)
	if err != nil {
		return errors.Join(err, locks.Close())
	}
	pen := note.NewPen(notes)
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	for id := range j.Workers {
		w := &worker{
			job: j, id: id, locks: locks, store: store, pen: pen,
			random: rand.New(rand.NewPCG(j.Seed, uint64(id))), //nolint:gosec // a seed to repeat it by
		}
		working.Go(func() { w.work(ctx) })
	}
	orders.Scan()
	stop()
	working.Wait()
	// Close gives back what was abandoned; until then others are not to have it.
	time.Sleep(j.Lease)
	return errors.Join(locks.Close(), store.Close(), pen.Close())
}

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

func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		w.tenure(ctx, w.random.IntN(1000))
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
		release, key = false, w.anyKey()
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
		w.pen.Ended(w.id, note.At(lock.Until()))
		_ = lock.Release(context.WithoutCancel(ctx)) // it may be lost by then
	}
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
	for left := w.job.Lease + w.upTo(2*w.job.Lease); left > 0 && ctx.Err() == nil && lock.Valid(); {
		w.visit(ctx, key, lock)
		pause := w.upTo(w.job.Lease / 2)
		rest(ctx, pause)
		left -= pause
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
