package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/ripe"
)

// measureCost is the figures of a session under load, with those of the servers. It ends the session.
func (b *Bench) measureCost(ctx context.Context, load *Load, servers Cluster) map[string]float64 {
	defer b.end(load.Session)
	defer load.Start(ctx).Stop()
	load.Warm(ctx)
	before, done := servers.CPU(), load.Done()
	sample := load.Window(ctx, b.span(load.Callers))
	cycles := load.Done() - done // asking a busy server takes its time, in which cycles go on
	b.tell(&sample)
	values := sample.values()
	values["server cpu"] = (servers.CPU() - before) / float64(cycles)
	return values
}

var throughput = Case{
	Name: "throughput",
	About: "cycles on keys of their own; allocations and processor time are those of one cycle; the share is of the floor, which is the bare commands and votes, " +
		"over connections written by hand",
	Columns: slices.Concat([]string{"cycles", "share", "lock p50", "lock p90", "lock p99", "unlock p50", "unlock p90", "unlock p99"}, costColumns),
	Run: func(ctx context.Context, b *Bench, t *Table) {
		turns(ctx, b.with(append(slices.Clone(b.Contenders), bare)), t, b.Rounds, b.bounded(1, 16, 128, 1024), func(c Contender, goroutines int) {
			load := &Load{Session: b.open(c, Setup{Goroutines: goroutines}), Callers: goroutines}
			t.Add(Key{Contender: c.Name(), Goroutines: goroutines}, b.measureCost(ctx, load, b.Site.Cluster))
		})
		for _, row := range t.Rows {
			floor := t.Row(Key{Contender: bare.Name(), Goroutines: row.Goroutines})
			for i, cycles := range row.Rounds["cycles"] {
				row.Rounds["share"] = append(row.Rounds["share"], cycles/floor.Rounds["cycles"][i])
			}
		}
	},
}

var costColumns = []string{"allocs", "client cpu", "server cpu", "failed"}

// A safeguard is what may be turned on beside the plain lock.
type safeguard struct {
	name    string
	keys    int // of each caller that come again, or 0
	options []redlock.Option
}

var safety = Case{
	Name: "safety",
	About: "the same cycles, and their share of the plain ones, with fences, with the restart guard and with both; on keys that are used once, and on 256 of each " +
		"goroutine that come again; second rounds are those for fences, of 1,000 cycles; all are told to a hook",
	Columns: []string{"cycles", "share", "lock p50", "lock p99", "allocs", "client cpu", "server cpu", "second rounds", "failed"},
	Run: func(ctx context.Context, b *Bench, t *Table) {
		fences, guard := []redlock.Option{redlock.WithFences()}, []redlock.Option{redlock.WithLongestTTL(ttl), redlock.WithRestartGuard()}
		turns(ctx, b.with(redlocks()), t, b.Rounds, b.bounded(1, 128), func(c Contender, goroutines int) {
			plain := 0.0
			for _, s := range []safeguard{
				{"plain", 0, nil},
				{"fences", 0, fences},
				{"guard", 0, guard},
				{"fences and guard", 0, slices.Concat(fences, guard)},
				{"plain, keys that come again", 256, nil},
				{"fences, keys that come again", 256, fences},
			} {
				values := b.guarded(ctx, c, goroutines, s)
				if strings.HasPrefix(s.name, "plain") {
					plain = values["cycles"]
				}
				values["share"] = values["cycles"] / plain
				t.Add(Key{Contender: c.Name(), Goroutines: goroutines, Situation: s.name}, values)
			}
		})
	},
}

// guarded is the figures with a safeguard, and how many of 1,000 cycles take a second round for
// their fence.
func (b *Bench) guarded(ctx context.Context, c Contender, goroutines int, s safeguard) map[string]float64 {
	var acquires, rounds atomic.Int64
	b.Site.Flush()
	session := b.open(c, Setup{Goroutines: goroutines, Options: append(slices.Clone(s.options), countRounds(&acquires, &rounds))})
	check(ripe.Servers(ctx, b.Site.Addrs(), memory.Settings{Longest: ttl}, "")) // nobody reads them without the guard
	values := b.measureCost(ctx, &Load{Session: session, Callers: goroutines, Keys: s.keys}, b.Site.Cluster)
	values["second rounds"] = 1000 * float64(rounds.Load()) / float64(max(1, acquires.Load()))
	return values
}

// countRounds counts acquires, and further rounds for their fences.
func countRounds(acquires, rounds *atomic.Int64) redlock.Option {
	return redlock.WithHooks(redlock.Hooks{AcquireEnd: func(_ context.Context, e redlock.AcquireEnd) {
		acquires.Add(1)
		rounds.Add(int64(e.FenceRounds))
	}})
}

// openLoop is a service whose callers do not wait for each other.
var openLoop = Case{
	Name: "openloop",
	About: "calls that are due at a fixed rate, in a process of their own, a share of the capacity that 128 goroutines in a closed loop show; times count from when a call " +
		"was due, and each call gives up 1 s after that; recovery is the time behind the overload, at " +
		"half of the capacity, until of the calls in each quarter of a second nine in ten succeed within thrice the p99 of 0.5",
	Columns: []string{"due", "cycles", "failed", "p50", "p99", "max", "at once", "recovery"},
	Run: func(ctx context.Context, b *Bench, t *Table) {
		some := slices.DeleteFunc(slices.Clone(b.Contenders), func(c Contender) bool { return !c.ours() && c.Mode != failFast && c.Mode != autoPipeline })
		turns(ctx, b.with(some), t, b.fewerRounds(), b.bounded(128), func(c Contender, goroutines int) { b.overload(t, c, goroutines) })
	},
}

// shares of the capacity, in their order.
var shares = []float64{0.5, 0.8, 1.0, 1.2}

// An overload is what serveOverload is told.
type overload struct {
	Contender string
	Addrs     []string
	Callers   int
	Duration  time.Duration // of one window
}

// overload measures in a process of its own: what a hundred thousand goroutines leave behind in one slows
// down whoever comes next.
func (b *Bench) overload(t *Table, c Contender, callers int) {
	child := startChild("overload", overload{c.Name(), b.Site.Addrs(), callers, b.Duration})
	defer child.Close()
	for _, share := range shares {
		var values map[string]float64
		check(child.answer(&values))
		t.Add(Key{Contender: c.Name(), Situation: fmt.Sprintf("%.1f of the capacity", share)}, values)
	}
}

// serveOverload answers with the figures of each share.
func serveOverload(spec []byte, _ *bufio.Scanner, answers *json.Encoder) {
	var o overload
	check(json.Unmarshal(spec, &o))
	ctx, b := context.Background(), &Bench{Duration: o.Duration, Log: log.New(os.Stderr, "", 0)}
	session := named(o.Contender).Open(o.Addrs, Setup{Goroutines: o.Callers, CallTimeout: patience})
	defer b.end(session)
	loop := (&Load{Session: session, Callers: o.Callers}).Start(ctx)
	loop.Warm(ctx)
	closed := loop.Window(ctx, b.span(o.Callers))
	loop.Stop()
	capacity := float64(closed.Lock.count) / closed.Elapsed.Seconds()
	long := Span{Least: 4 * b.Duration, Most: 4 * b.Duration}
	var calm time.Duration // the p99 at the least rate
	for _, share := range shares {
		load := (&Load{Session: session, Rate: max(1, share*capacity)}).Start(ctx)
		sample := load.Window(ctx, long)
		load.cancel() // what is on its way goes on
		b.tell(&sample)
		seconds := sample.Elapsed.Seconds()
		values := map[string]float64{
			"due": load.Rate, "cycles": float64(sample.Lock.count) / seconds, "failed": float64(sample.Lost.count) / seconds,
			"p50": sample.Lock.seconds(0.5), "p99": sample.Lock.seconds(0.99),
			"max": max(sample.Lock.longest, sample.Lost.longest).Seconds(), "at once": float64(load.most.Load()),
		}
		if calm == 0 {
			calm = sample.Lock.quantile(0.99)
		}
		if share > 1 {
			var behind recovery
			start := now()
			again := (&Load{Session: session, Rate: max(1, shares[0]*capacity), Told: func(took time.Duration, err error) {
				behind.told(now().sub(start), err != nil || took > 3*calm)
			}}).Start(ctx)
			again.Window(ctx, long)
			again.Stop()
			values["recovery"] = behind.lasted().Seconds()
		}
		load.Stop()
		check(answers.Encode(values))
	}
}

// A recovery is how many of the calls behind an overload were bad, in each quarter of a second.
type recovery [64]struct{ all, bad atomic.Int64 }

const slice = 250 * time.Millisecond

func (r *recovery) told(at time.Duration, bad bool) {
	s := &r[min(int(at/slice), len(r)-1)]
	if s.all.Add(1); bad {
		s.bad.Add(1)
	}
}

// lasted is until no later slice has more than one bad call in ten.
func (r *recovery) lasted() time.Duration {
	for i := len(r) - 1; i >= 0; i-- {
		if 10*r[i].bad.Load() > r[i].all.Load() {
			return time.Duration(i+1) * slice
		}
	}
	return 0
}

// scale shows how cost grows with what is at the nodes, and with their number.
var scale = Case{
	Name:    "scale",
	About:   "the same cycles on more and fewer nodes, and beside a million keys of others on each node",
	Columns: append([]string{"cycles", "lock p50", "lock p90", "lock p99"}, costColumns...),
	Apart:   true,
	Run: func(ctx context.Context, b *Bench, t *Table) {
		for _, of := range []struct{ nodes, keys int }{{1, 0}, {3, 0}, {5, 0}, {7, 0}, {9, 0}, {15, 0}, {5, b.atMost(1_000_000)}} {
			b.scaleTo(ctx, t, of.nodes, of.keys)
		}
	},
}

// scaleTo measures on so many nodes, with so many keys of others on each.
func (b *Bench) scaleTo(ctx context.Context, t *Table, count, keys int) {
	c := startCluster(count, server.Setup{Args: []string{"--enable-debug-command", "local"}})
	defer c.Close()
	name := plural(count, "node")
	if keys > 0 {
		name += fmt.Sprintf(", %d keys of others on each", keys)
	}
	for _, p := range c {
		for part := range min(10, keys) { // for which no machine is too slow
			must(p.Do("DEBUG", "POPULATE", fmt.Sprint(keys/10), fmt.Sprint("other", part), "32"))
		}
	}
	turns(ctx, b.with([]Contender{find("redlock", "go-redis", "")}), t, b.Rounds, b.bounded(1, 128), func(contender Contender, goroutines int) {
		load := &Load{Session: contender.Open(c.Addrs(), Setup{Goroutines: goroutines}), Callers: goroutines}
		t.Add(Key{contender.Name(), goroutines, name}, b.measureCost(ctx, load, c))
	})
}
