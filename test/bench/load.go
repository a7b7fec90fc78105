package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// Load is callers that lock and unlock keys, until it is stopped. Windows of time are measured
// while it goes on.
type Load struct {
	Session Session
	Callers int
	Keys    int           // of each caller, which come again; 0 for keys that are used once
	Key     string        // one for all, if it is not ""
	Wait    bool          // for keys that are taken
	Work    time.Duration // while a key is held
	Rest    time.Duration // before the next cycle
	Turns   bool          // are kept: see Member
	Dirty   bool          // nothing is collected before a window: a sweeper that yields at each step to goroutines that compute takes hours

	// Rate makes it an open loop: so many calls a second are due, whether those before have ended or
	// not. Times of whole calls count from when they were due, and they give up after patience.
	Rate float64
	Told func(took time.Duration, err error) // of each end, if it is not nil

	cancel      context.CancelFunc
	joined      sync.WaitGroup
	workers     []*worker
	under, most atomic.Int64 // calls of an open loop on their way, and the most at once
}

// patience is how long a caller of an open loop waits for its lock and the release.
const patience = time.Second

func (l *Load) Start(ctx context.Context) *Load {
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx)) // Stop ends it
	run := time.Now().UnixNano()
	for i := range max(1, l.Callers) {
		w := &worker{keys: keys{one: l.Key, prefix: fmt.Sprintf("bench:%016x:%04d", run, i), count: l.Keys}}
		l.workers = append(l.workers, w)
		l.joined.Go(func() {
			if l.Rate > 0 {
				l.open(ctx, w)
			}
			for ctx.Err() == nil {
				l.cycle(ctx, w, now(), w.keys.next())
				time.Sleep(l.Rest)
			}
		})
	}
	return l
}

// Stop ends the load: callers finish the cycle that they are in, but do not wait on.
func (l *Load) Stop() {
	l.cancel()
	l.joined.Wait()
}

// open lets calls arrive at their rate.
func (l *Load) open(ctx context.Context, w *worker) {
	began := now()
	for i := 0; ctx.Err() == nil; i++ {
		due := began + moment(float64(i)/l.Rate*float64(time.Second))
		if left := due.sub(now()); left > time.Millisecond { // or those that are due go at once
			time.Sleep(left)
		}
		key := w.keys.next()
		l.most.Store(max(l.most.Load(), l.under.Add(1)))
		l.joined.Go(func() {
			defer l.under.Add(-1)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), due.sub(now())+patience)
			defer cancel()
			l.cycle(ctx, w, due, key)
		})
	}
}

// cycle locks a key and unlocks it. What nobody waits for any more is no failure.
func (l *Load) cycle(ctx context.Context, w *worker, asked moment, key string) {
	turn := Turn{Asked: asked}
	var hold Hold
	var err error
	switch {
	case l.Wait:
		hold, err = l.Session.Wait(ctx, key)
	case l.Rate > 0:
		hold, err = l.Session.Lock(ctx, key)
	default:
		hold, err = l.Session.Lock(context.Background(), key) //nolint:contextcheck // as a request has: nothing that others share
	}
	got := now()
	turn.Left = got
	if err == nil {
		turn.Got = got
		if l.Work > 0 {
			time.Sleep(l.Work)
			turn.Left = now()
		}
		err = hold.Release()
	}
	end := now()
	if errors.Is(ctx.Err(), context.Canceled) { // by Stop, whatever a contender makes of it
		err = nil
	}
	lock := got.sub(asked)
	if l.Rate > 0 {
		lock = end.sub(asked)
	}
	if l.Told != nil {
		l.Told(lock, err)
	}
	w.record(l.Turns, turn, lock, end.sub(turn.Left), err)
}

// Span says how long a window is: until least has passed and so many cycles are
// done, but no longer than most.
type Span struct {
	Least, Most time.Duration
	Cycles      uint64
}

// Sample is what happened in a window: the cycles that ended in it.
type Sample struct {
	Elapsed            time.Duration
	Lock, Unlock, Lost latencies     // lost are those that failed
	Mallocs            uint64        // of the whole process
	CPU                time.Duration // of the whole process
	Err                error         // the first failure
}

// values are what a sample holds, by the names of the columns.
func (s *Sample) values() map[string]float64 {
	cycles := float64(s.Lock.count)
	values := map[string]float64{
		"cycles":     cycles / s.Elapsed.Seconds(),
		"failed":     float64(s.Lost.count),
		"allocs":     float64(s.Mallocs) / cycles,
		"client cpu": s.CPU.Seconds() / cycles,
	}
	if s.Lock.count > 0 {
		for name, q := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99} {
			values["lock "+name], values["unlock "+name] = s.Lock.seconds(q), s.Unlock.seconds(q)
		}
	}
	return values
}

// Window measures the load for a span.
func (l *Load) Window(ctx context.Context, span Span) (sample Sample) {
	if !l.Dirty {
		runtime.GC() // each contender begins with the same debt
	}
	for _, w := range l.workers {
		w.take()
	}
	mallocs, cpu := usage()
	start, done := time.Now(), l.Done()
	for passed := time.Duration(0); passed < span.Most && (passed < span.Least || l.Done()-done < span.Cycles); passed = time.Since(start) {
		pause(ctx, min(max(span.Least-passed, time.Millisecond), span.Most-passed))
	}
	sample.Elapsed = time.Since(start)
	nowMallocs, nowCPU := usage()
	sample.Mallocs, sample.CPU = nowMallocs-mallocs, nowCPU-cpu
	for _, w := range l.workers {
		one := w.take()
		sample.Lock.merge(&one.Lock)
		sample.Unlock.merge(&one.Unlock)
		sample.Lost.merge(&one.Lost)
		sample.Err = cmp.Or(sample.Err, one.Err)
	}
	return sample
}

// Warm lets the load run until every connection and every pool is in use.
func (l *Load) Warm(ctx context.Context) {
	l.Window(ctx, Span{Least: 100 * time.Millisecond, Most: 10 * time.Second, Cycles: 2 * uint64(len(l.workers))})
}

// Done is how many cycles have ended so far, in windows or not.
func (l *Load) Done() uint64 {
	var n uint64
	for _, w := range l.workers {
		n += w.done.Load()
	}
	return n
}

// Members are what each caller has to report, if turns are kept and the load is stopped.
func (l *Load) Members() []Member {
	members := make([]Member, len(l.workers))
	for i, w := range l.workers {
		members[i] = w.member
	}
	return members
}

type worker struct {
	keys keys
	done atomic.Uint64

	mu     sync.Mutex
	sample Sample // since take
	member Member
}

func (w *worker) record(turns bool, turn Turn, lock, unlock time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if turns {
		w.member.add(turn, err)
	}
	if err != nil {
		w.sample.Lost.add(lock)
		w.sample.Err = cmp.Or(w.sample.Err, err)
		return
	}
	w.done.Add(1)
	w.sample.Lock.add(lock)
	w.sample.Unlock.add(unlock)
}

// take returns what has happened since it was called last.
func (w *worker) take() (sample Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sample, w.sample = w.sample, Sample{}
	return sample
}

// keys makes keys that differ and are equally long. They are cut from longer texts,
// so that they count for no allocation of a contender.
type keys struct {
	one, prefix string
	count, n    int
	all, rest   string // that are made, and have not been had
}

func (k *keys) next() string {
	if k.one != "" {
		return k.one
	}
	if k.rest == "" && (k.all == "" || k.count == 0) {
		var text []byte
		for range cmp.Or(k.count, 256) {
			text = fmt.Appendf(text, "%s:%08d", k.prefix, k.n)
			k.n++
		}
		k.all = string(text)
	}
	if k.rest == "" {
		k.rest = k.all
	}
	length := len(k.prefix) + len(":00000000")
	key := k.rest[:length]
	k.rest = k.rest[length:]
	return key
}

// usage is the allocations and the processor time of this process so far.
func usage() (mallocs uint64, cpu time.Duration) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // never fails
	return m.Mallocs, time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// inUse is the memory that heap and stacks take, without garbage. Pools keep things for one collection
// longer, hence two.
func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
		check(context.Cause(ctx))
	case <-time.After(d):
	}
}

// shared does something n times, as often at once as keeps the nodes busy.
func shared(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(128)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}
