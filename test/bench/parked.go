package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var parked = Case{
	Name: "parked",
	About: "goroutines that each wait for a key of their own, which another session holds: what one takes of heap and stacks, " +
		"what all of them cost in 2 s (the processor as a part of one core), and how long it takes until all have had their locks once the keys are released",
	Columns: []Column{
		{"memory", "a waiter's memory", memory},
		{"cpu", "client CPU", percent},
		{"commands", "a node's commands/s", whole},
		{"release", "all released in", duration},
		{"done", "all done in", duration},
		{"failed", "failed", whole},
	},
	Run: runParked,
}

func runParked(ctx context.Context, b *Bench, t *Table) error {
	waiters := mostGoroutines
	if b.Quick {
		waiters = 2_000
	}
	return b.waitingAlone().turns(ctx, t, b.fewerRounds(), []int{waiters}, func(c Contender, goroutines int) error {
		values, err := park(ctx, b, c, goroutines)
		if err == nil {
			t.Add(Key{Contender: c.Name(), Goroutines: goroutines}, values)
		}
		return errors.Join(err, b.Site.Flush())
	})
}

// park lets goroutines wait for keys that another session holds, and then releases the
// keys.
func park(ctx context.Context, b *Bench, c Contender, goroutines int) (map[string]float64, error) {
	setup := Setup{Goroutines: goroutines, TTL: 5 * time.Minute} // nothing expires
	holder, err := c.Open(b.Site.Addrs(), setup)
	if err != nil {
		return nil, err
	}
	defer b.end(holder)
	waiter, err := c.Open(b.Site.Addrs(), setup)
	if err != nil {
		return nil, err
	}
	defer b.end(waiter)

	key := func(i int) string { return fmt.Sprintf("bench:parked:%08d", i) }
	holds := make([]Hold, goroutines)
	shared(goroutines, func(i int) {
		for try := 0; try < 3 && holds[i] == nil; try++ { // a busy machine may be late once
			holds[i], _ = holder.Lock(ctx, key(i))
		}
	})
	if i := slices.Index(holds, nil); i >= 0 {
		return nil, fmt.Errorf("%s could not be locked", key(i))
	}
	before := inUse()
	queue := startQueue(ctx, waiter, goroutines, key)
	values, err := b.idle(ctx, before, goroutines)
	if err == nil {
		start := time.Now()
		shared(goroutines, func(i int) {
			if err := holds[i].Release(ctx); err != nil {
				queue.fail(err)
			}
		})
		values["release"] = time.Since(start).Seconds()
		late := time.AfterFunc(time.Minute, queue.cancel) // who has no lock by then has failed
		queue.joined.Wait()
		late.Stop()
		values["done"] = time.Since(start).Seconds()
	}
	failed, failure := queue.stop()
	if failed > 0 {
		b.Log.Printf("\t%d failed, the first: %v", failed, failure)
	}
	if err == nil {
		values["failed"] = float64(failed)
	}
	return values, err
}

// idle waits until all waiters have settled down, and says what they cost from then on.
func (b *Bench) idle(ctx context.Context, before uint64, goroutines int) (map[string]float64, error) {
	settle, long := 3*time.Second, 2*time.Second
	if b.Quick {
		settle, long = time.Second, 500*time.Millisecond
	}
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	values := map[string]float64{"memory": (float64(inUse()) - float64(before)) / float64(goroutines)}
	commands, err := b.Site.commandsDuring(func() error {
		start, cpu := time.Now(), usage().cpu
		err := pause(ctx, long)
		values["cpu"] = (usage().cpu - cpu).Seconds() / time.Since(start).Seconds()
		return err
	})
	values["commands"] = commands / long.Seconds()
	return values, err
}

// queue is goroutines that each wait for a key, and release it as soon as they have it.
type queue struct {
	cancel context.CancelFunc
	joined sync.WaitGroup

	mu     sync.Mutex
	failed int
	err    error // the first
}

func startQueue(ctx context.Context, session Session, goroutines int, key func(int) string) *queue {
	ctx, cancel := context.WithCancel(ctx)
	q := &queue{cancel: cancel}
	for i := range goroutines {
		q.joined.Go(func() {
			hold, err := session.Wait(ctx, key(i))
			if err == nil {
				err = hold.Release(ctx)
			}
			if err != nil {
				q.fail(err)
			}
		})
	}
	return q
}

func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed++
	if q.err == nil {
		q.err = err
	}
}

// stop ends all waiting, and says how many have failed and why the first did.
func (q *queue) stop() (failed int, first error) {
	q.cancel()
	q.joined.Wait()
	return q.failed, q.err
}

// inUse is the memory that heap and stacks take. Pools keep things for one collection
// longer, hence two.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// shared does something n times, in as many goroutines as keep the nodes busy.
func shared(n int, do func(i int)) {
	const goroutines = 128
	var next atomic.Int64
	var joined sync.WaitGroup
	for range goroutines {
		joined.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	joined.Wait()
}
