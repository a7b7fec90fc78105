package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// openLoop is a service whose callers do not wait for each other: calls are due at a fixed rate,
// however slow the locks are.
var openLoop = Case{
	Name: "openloop",
	About: "calls that are due at a fixed rate, a share of the capacity that 128 goroutines in a closed loop show; times count from when a call " +
		"was due, and each call gives up 1 s after that; recovery is how long behind the overload calls are slow or fail at half of the capacity",
	Columns: []Column{
		{"offered", "due/s", whole},
		{"cycles", "cycles/s", whole},
		{"failed", "failed/s", whole},
		{"p50", "p50", duration},
		{"p99", "p99", duration},
		{"max", "max", duration},
		{"waiting", "most at once", whole},
		{"memory", "MB in use", decimal},
		{"recovery", "recovery", duration},
	},
	Run: runOpenLoop,
}

// patience is how long a caller waits for its lock and the release.
const patience = time.Second

// loads are the shares of the capacity, in their order.
var loads = []float64{0.5, 0.8, 1.0, 1.2}

func runOpenLoop(ctx context.Context, b *Bench, t *Table) error {
	few := *b
	few.Contenders = slices.DeleteFunc(slices.Clone(b.Contenders), func(c Contender) bool { return !c.ours() && c.Mode != failFast && c.Mode != autoPipeline })
	return few.turns(ctx, t, b.fewerRounds(), []int{128}, func(c Contender, goroutines int) error {
		session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl, CallTimeout: patience})
		if err != nil {
			return err
		}
		err = measureOpenLoop(ctx, b, t, c, session, goroutines)
		b.end(session)
		return errors.Join(err, b.Site.Flush())
	})
}

func measureOpenLoop(ctx context.Context, b *Bench, t *Table, c Contender, session Session, goroutines int) error {
	capacity := 0.0
	err := withLoad(ctx, session, goroutines, func(load *Load) error {
		sample, err := load.Window(ctx, b.span(goroutines))
		capacity = float64(sample.Cycles) / sample.Elapsed.Seconds()
		return err
	})
	if err != nil || capacity == 0 {
		return err
	}
	var calm *arrivals
	for _, share := range loads {
		a := &arrivals{session: session, rate: share * capacity}
		if err := a.run(ctx, 4*b.Duration, nil); err != nil {
			return err
		}
		values := a.values()
		if calm == nil {
			calm = a
		}
		if share > 1 {
			recovery, err := recovered(ctx, session, calm, 4*b.Duration)
			if err != nil {
				return err
			}
			values["recovery"] = recovery.Seconds()
		}
		a.finish()
		t.Add(Key{Contender: c.Name(), Situation: fmt.Sprintf("%.1f of the capacity", share)}, values)
	}
	return nil
}

// recovered returns how long calls at the calm rate are slower than thrice what they were, or fail.
func recovered(ctx context.Context, session Session, calm *arrivals, most time.Duration) (time.Duration, error) {
	var last atomic.Int64 // when the last call ended that was so
	began, slow := time.Now(), 3*calm.took.quantile(0.99)
	a := &arrivals{session: session, rate: calm.rate}
	err := a.run(ctx, most, func(took time.Duration, err error) {
		if err != nil || took > slow {
			last.Store(int64(time.Since(began)))
		}
	})
	a.finish()
	return time.Duration(last.Load()), err
}

// arrivals are calls that are due one after the other, at a rate.
type arrivals struct {
	session Session
	rate    float64 // a second

	calls   sync.WaitGroup
	waiting atomic.Int64
	most    int64
	memory  uint64
	elapsed time.Duration

	mu           sync.Mutex
	took         latencies
	longest      time.Duration
	done, failed uint64
}

var arrival atomic.Uint64 // the number of the next one, which its key has

// run lets calls arrive for a while. Told is told of each end; nil: nobody is.
func (a *arrivals) run(ctx context.Context, length time.Duration, told func(time.Duration, error)) error {
	began, looked := time.Now(), time.Duration(0)
	for i := 0; ; i++ {
		due := began.Add(time.Duration(float64(i) / a.rate * float64(time.Second)))
		if due.Sub(began) >= length {
			break
		}
		if left := time.Until(due); left > time.Millisecond { // or those that are due go at once
			if now := time.Since(began); now-looked > 100*time.Millisecond { // the world stops for it
				a.look()
				looked = now
			}
			if err := pause(ctx, left); err != nil {
				return err
			}
		}
		a.most = max(a.most, a.waiting.Add(1))
		a.calls.Go(func() { a.call(context.WithoutCancel(ctx), due, told) })
	}
	a.elapsed = time.Since(began)
	a.look()
	return nil
}

// look notes how much memory is in use.
func (a *arrivals) look() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	a.memory = max(a.memory, m.HeapInuse+m.StackInuse)
}

// finish waits for the calls that are still on their way.
func (a *arrivals) finish() { a.calls.Wait() }

func (a *arrivals) call(ctx context.Context, due time.Time, told func(time.Duration, error)) {
	defer a.waiting.Add(-1)
	ctx, cancel := context.WithDeadline(ctx, due.Add(patience))
	defer cancel()
	hold, err := a.session.Lock(ctx, "bench:open:"+strconv.FormatUint(arrival.Add(1), 16))
	if err == nil {
		err = hold.Release(ctx)
	}
	took := time.Since(due)
	if told != nil {
		told(took, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took.add(took)
	a.longest = max(a.longest, took)
	if err != nil {
		a.failed++
	} else {
		a.done++
	}
}

func (a *arrivals) values() map[string]float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	seconds := a.elapsed.Seconds()
	return map[string]float64{
		"offered": a.rate, "cycles": float64(a.done) / seconds, "failed": float64(a.failed) / seconds,
		"p50": a.took.quantile(0.5).Seconds(), "p99": a.took.quantile(0.99).Seconds(), "max": a.longest.Seconds(),
		"waiting": float64(a.most), "memory": float64(a.memory) / 1e6, "recovery": math.NaN(),
	}
}
