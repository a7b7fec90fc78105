package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

var far = Case{
	Name:  "far",
	Apart: true,
	About: "one or two of the five nodes farther away than the others, all behind proxies: goroutines that acquire and release, all on one key " +
		"or each on its own, for a minute a turn (-far); the share is of a turn right before, with all nodes equally near; the heap is after a collection",
	Columns: []Column{
		{"cycles", "cycles/s", whole},
		{"share", "share", percent},
		{"heap", "MiB", decimal},
		{"grown", "MiB more", decimal},
		{"close", "Close", duration},
	},
	Run: runFar,
}

// A trip is a turn of the case.
type trip struct {
	far     int // nodes
	farther time.Duration
	callers int
	one     bool // key for all
}

func (t trip) String() string {
	keys := "a key each"
	if t.one {
		keys = "one key"
	}
	return fmt.Sprintf("%d far by %v, %s", t.far, t.farther, keys)
}

// farFloors are what a minority costs that is farther away, in a turn of a minute. What is under way there is a part of
// the heap.
func farFloors() []Floor {
	return []Floor{
		worst("throughput against all nodes near, a minority farther away", far.Name, "share", "", 0.95, false, percent),
		worst("MiB that a minute adds to the heap, a minority farther away", far.Name, "grown", "", 8, true, decimal),
		worst("Close beside a minority farther away, within a node's time-out (and 5 ms)", far.Name, "close", "", 0.255, true, duration),
	}
}

func runFar(ctx context.Context, b *Bench, t *Table) error {
	distances, rounds := []time.Duration{2 * time.Millisecond, 30 * time.Millisecond, 200 * time.Millisecond}, 1
	return b.waitingAlone().turns(ctx, t, rounds, []int{1, 16}, func(c Contender, goroutines int) error {
		for _, one := range []bool{true, false} {
			if !one && goroutines == 1 {
				continue
			}
			for _, farther := range distances {
				equal, err := b.walk(ctx, c, trip{callers: goroutines, one: one})
				if err != nil {
					return err
				}
				for _, count := range []int{1, 2} {
					way := trip{count, farther, goroutines, one}
					values, err := b.walk(ctx, c, way)
					if err != nil {
						return err
					}
					values["share"] = values["cycles"] / equal["cycles"]
					b.Log.Printf("\t%v: %.0f of %.0f cycles/s, heap %.1f MiB, %.1f more than before, Close %.3fs", way, values["cycles"], equal["cycles"], values["heap"], values["grown"], values["close"])
					t.Add(Key{Contender: c.Name(), Goroutines: goroutines, Situation: way.String()}, values)
				}
			}
		}
		return nil
	})
}

// walk measures one turn, and leaves all nodes near and empty.
func (b *Bench) walk(ctx context.Context, c Contender, way trip) (values map[string]float64, err error) {
	defer func() { err = errors.Join(err, b.Site.move(0), b.Site.Flush()) }()
	session, err := c.Open(b.Site.delay.Addrs(), Setup{Goroutines: way.callers, TTL: ttl})
	if err != nil {
		return nil, err
	}
	if _, err := b.pace(ctx, session, way, b.Far/10); err != nil { // which makes the connections
		return nil, errors.Join(err, session.Close())
	}
	for i := nodes - way.far; i < nodes; i++ {
		if err := b.Site.delay.Set(i, way.farther); err != nil {
			return nil, errors.Join(err, session.Close())
		}
	}
	before := heap()
	cycles, err := b.pace(ctx, session, way, b.Far)
	after := heap()
	began := time.Now()
	b.end(session)
	return map[string]float64{
		"cycles": float64(cycles) / b.Far.Seconds(), "heap": after, "grown": after - before, "close": time.Since(began).Seconds(),
	}, err
}

// pace counts the cycles of the callers in so much time.
func (b *Bench) pace(ctx context.Context, session Session, way trip, lasts time.Duration) (int64, error) {
	var count atomic.Int64
	var group sync.WaitGroup
	failures := make([]error, way.callers)
	prefix, end := fmt.Sprintf("bench:%016x", time.Now().UnixNano()), time.Now().Add(lasts)
	for i := range way.callers {
		key := prefix
		if !way.one {
			key = fmt.Sprintf("%s:%04d", prefix, i)
		}
		group.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil && failures[i] == nil {
				hold, err := session.Wait(ctx, key)
				if err == nil {
					err = hold.Release(ctx)
				}
				failures[i] = err
				count.Add(1)
			}
		})
	}
	group.Wait()
	return count.Load(), errors.Join(append(failures, context.Cause(ctx))...)
}

// heap is what is reachable, in MiB.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
