package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Load is goroutines that lock and unlock keys of their own, one after the other,
// until it is stopped. Windows of time are measured while it goes on.
type Load struct {
	session Session
	workers []*worker
	stopped atomic.Bool
	joined  sync.WaitGroup
}

// startLoad starts so many goroutines on the session.
func startLoad(session Session, goroutines int) *Load { return startLoadOn(session, goroutines, false) }

// startLoadOn is startLoad where the keys may come again: each goroutine has 256.
func startLoadOn(session Session, goroutines int, again bool) *Load {
	l := &Load{session: session, workers: make([]*worker, goroutines)}
	run := time.Now().UnixNano()
	for i := range l.workers {
		l.workers[i] = &worker{load: l, keys: keys{prefix: fmt.Sprintf("bench:%016x:%04d", run, i), again: again}}
		l.joined.Go(l.workers[i].run)
	}
	return l
}

// Stop ends the load: each goroutine finishes the cycle that it is in.
func (l *Load) Stop() {
	l.stopped.Store(true)
	l.joined.Wait()
}

// Span says how long a window is: until least has passed and so many cycles are
// done, but no longer than most.
type Span struct {
	Least, Most time.Duration
	Cycles      uint64
}

// Sample is what happened in a window: the cycles that ended in it.
type Sample struct {
	Elapsed      time.Duration
	Cycles       uint64
	Failed       uint64
	Lock, Unlock latencies
	Mallocs      uint64        // of the whole process
	CPU          time.Duration // of the whole process
	Err          error         // the first failure
}

// Window measures the load for a span.
func (l *Load) Window(ctx context.Context, span Span) (Sample, error) {
	runtime.GC() // each contender begins with the same debt
	for _, w := range l.workers {
		w.open()
	}
	before, done := usage(), l.Done()
	start := time.Now()
	var err error
	for err == nil {
		passed := time.Since(start)
		if passed >= span.Most || passed >= span.Least && l.Done()-done >= span.Cycles {
			break
		}
		err = pause(ctx, min(max(span.Least-passed, time.Millisecond), span.Most-passed))
	}
	sample := Sample{Elapsed: time.Since(start)}
	after := usage()
	sample.Mallocs, sample.CPU = after.mallocs-before.mallocs, after.cpu-before.cpu
	for _, w := range l.workers {
		w.close(&sample)
	}
	return sample, err
}

// Warm lets the load run until every connection and every pool is in use.
func (l *Load) Warm(ctx context.Context) error {
	_, err := l.Window(ctx, Span{Least: 100 * time.Millisecond, Most: 10 * time.Second, Cycles: 2 * uint64(len(l.workers))})
	return err
}

// Done is how many cycles have ended so far, in windows or not.
func (l *Load) Done() uint64 {
	var n uint64
	for _, w := range l.workers {
		n += w.done.Load()
	}
	return n
}

type worker struct {
	load *Load
	keys keys
	done atomic.Uint64

	mu           sync.Mutex // of what the window has
	measuring    bool
	failed       uint64
	lock, unlock latencies
	err          error
}

func (w *worker) run() {
	ctx := context.Background() // as a request has: nothing that others share
	for !w.load.stopped.Load() {
		key := w.keys.next()
		start := time.Now()
		hold, err := w.load.session.Lock(ctx, key)
		locked := time.Now()
		if err == nil {
			err = hold.Release(ctx)
		}
		w.record(locked.Sub(start), time.Since(locked), err)
	}
}

func (w *worker) record(lock, unlock time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.done.Add(1)
	}
	switch {
	case !w.measuring:
	case err != nil:
		w.failed++
		if w.err == nil {
			w.err = err
		}
	default:
		w.lock.add(lock)
		w.unlock.add(unlock)
	}
}

func (w *worker) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.measuring, w.failed, w.err = true, 0, nil
	w.lock, w.unlock = latencies{}, latencies{}
}

func (w *worker) close(into *Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.measuring = false
	into.Cycles += w.lock.count
	into.Failed += w.failed
	into.Lock.merge(&w.lock)
	into.Unlock.merge(&w.unlock)
	if into.Err == nil {
		into.Err = w.err
	}
}

// keys makes keys that differ and are equally long. They are cut from longer texts,
// so that they count for no allocation of a contender.
type keys struct {
	prefix string
	n      int
	text   string
	again  bool // all that were made come again and again
	made   string
}

func (k *keys) next() string {
	const batch = 256
	length := len(k.prefix) + len(":00000000")
	switch {
	case k.text == "" && k.again && k.made != "":
		k.text = k.made
	case k.text == "":
		text := make([]byte, 0, batch*length)
		for i := range batch {
			text = fmt.Appendf(text, "%s:%08d", k.prefix, k.n+i)
		}
		k.text, k.n = string(text), k.n+batch
		k.made = k.text
	}
	key := k.text[:length]
	k.text = k.text[length:]
	return key
}

type resources struct {
	mallocs uint64
	cpu     time.Duration
}

func usage() resources {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return resources{mallocs: memory.Mallocs}
	}
	return resources{memory.Mallocs, time.Duration(r.Utime.Nano() + r.Stime.Nano())}
}

// pause waits for d, or less if the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
