package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"
)

// callTimeout bounds the calls of libraries that leave that to their caller: what
// redsync gives to a lock with this TTL.
const callTimeout = ttl / 20

var (
	// minorities are the troubles that leave a quorum.
	minorities = []Trouble{hung(1), hung(2), refused(1), refused(2), farther(1, 30*time.Millisecond)}
	// allFarther leaves all nodes equal.
	allFarther = farther(nodes, away)
)

// away is how long a round trip to nodes takes that are all far.
const away = 6 * time.Millisecond

// A hardship is a load, and the trouble that it meets.
type hardship struct {
	Trouble
	callers   int
	keys      int           // of each caller, or 0 for tries on keys that are used once
	one       bool          // key for all
	of        int           // nodes, or 0 for five
	note      string        // of these, in titles
	well, ill Span          // before, and in trouble
	closed    bool          // the session is closed while the trouble lasts, or else behind it
	tries     time.Duration // without a quorum, with this between them
}

func (h hardship) title() string { return join(h.Name, h.note) }

// hardshipColumns are those of cases with a hardship.
var hardshipColumns = []string{
	"healthy cycles", "cycles", "share", "lock p50", "lock p99", "unlock p99", "p99 ratio", "trips", "failed", "MiB more", "keys left", "close", "goroutines",
}

var faults = Case{
	Name: "faults",
	About: "cycles on keys of their own with some nodes in trouble, against the same session just before; p99 against healthy is the worse of lock and unlock; trips " +
		"are the p90 of a lock in round trips of 6 ms, where all nodes are far. When all is well again, keys are counted until there are none or 3 s have passed; then " +
		"the session is closed, and the goroutines that it leaves behind are counted",
	Columns: without(hardshipColumns, "MiB more"),
	Run: func(ctx context.Context, b *Bench, t *Table) {
		var all []hardship
		troubles := append([]Trouble{allFarther}, minorities...)
		if b.Quick {
			troubles = troubles[:2]
		}
		for _, trouble := range troubles {
			for _, callers := range b.bounded(16, 128) {
				span := b.span(callers)
				span.Least = 3 * span.Least / 5 // there are many of them
				all = append(all, hardship{Trouble: trouble, callers: callers, well: span, ill: span})
			}
		}
		turns(ctx, b, t, b.fewerRounds(), all, func(c Contender, h hardship) {
			switch {
			case h.Name == allFarther.Name:
			case c.ours():
				h.ill.Cycles = 50_000 // so that something is left behind
			case t.Row(Key{c.Name(), h.callers, h.title()}) != nil, !c.failFast() && h.callers < 128:
				return // peers take their time here: once is enough
			}
			b.endure(ctx, t, c, h)
		})
	},
}

var starving = Case{
	Name: "starving",
	About: "cycles on keys of their own in a process in which other goroutines compute, which is all that is wrong; the share is of the same session just before. With n " +
		"goroutines a core that compute, each step of a cycle may wait for n times 10 ms, until the Go runtime has stopped them",
	Columns: without(hardshipColumns, "MiB more", "trips", "p99 ratio"),
	Run: func(ctx context.Context, b *Bench, t *Table) {
		var all []hardship
		for _, each := range []int{2, 8} {
			for _, callers := range b.bounded(1, 16, 128) {
				long := 6 * b.Duration
				all = append(all, hardship{Trouble: busy(each), callers: callers, well: b.span(callers), ill: Span{Least: long, Most: long}})
			}
		}
		turns(ctx, b, t, 1, all, func(c Contender, h hardship) {
			if c.ours() || !c.failFast() && h.callers == 16 {
				b.endure(ctx, t, c, h)
			}
		})
	},
}

var outage = Case{
	Name:    "outage",
	About:   "no quorum: how long a try takes until it fails with three of the five nodes refused or hung, one try after the other in one goroutine",
	Columns: []string{"failed", "median", "worst", "close", "goroutines"},
	Run: func(ctx context.Context, b *Bench, t *Table) {
		var all []hardship
		for _, trouble := range []Trouble{refused(3), hung(3)} {
			ill := Span{Least: 2 * time.Second, Most: 2 * time.Second} // tries of peers take 1.6 s
			all = append(all, hardship{Trouble: trouble, callers: 1, ill: ill, closed: true, tries: 50 * time.Millisecond})
		}
		turns(ctx, b, t, b.fewerRounds(), all, func(c Contender, h hardship) {
			if c.ours() || t.Row(Key{c.Name(), h.callers, h.title()}) == nil { // the time-outs of peers are the longer ones
				b.endure(ctx, t, c, h)
			}
		})
	},
}

var far = Case{
	Name:  "far",
	Apart: true,
	About: "one or two of five nodes, or one of three, that differ from the others, all behind proxies: goroutines that acquire and release, all on one key or each on its own, for a " +
		"minute a turn (-far); the share is of 10 s right before, with all nodes alike; the heap is after a collection; the session is closed while the trouble lasts",
	Columns: without(hardshipColumns, "unlock p99", "p99 ratio", "trips", "keys left"),
	Run: func(ctx context.Context, b *Bench, t *Table) {
		var all []hardship
		for _, callers := range b.bounded(1, 16, 128) {
			for _, one := range []bool{true, false} {
				for _, of := range []struct{ bad, nodes int }{{1, nodes}, {2, nodes}, {1, 3}} {
					for _, trouble := range unlike(of.bad) {
						trouble.proxied = true
						h := hardship{Trouble: trouble, callers: callers, keys: 1, one: one, of: of.nodes, closed: true}
						h.well, h.ill = Span{Least: min(b.Far, 10*time.Second), Most: b.Far}, Span{Least: b.Far, Most: b.Far}
						h.note = fmt.Sprintf("of %d, %s", of.nodes, map[bool]string{true: "one key", false: "a key each"}[one])
						if callers > 1 || one {
							all = append(all, h)
						}
					}
				}
			}
		}
		turns(ctx, b.with(b.Waiters), t, 1, all, func(c Contender, h hardship) { b.endure(ctx, t, c, h) })
	},
}

// unlike are the ways in which n nodes differ from the others.
func unlike(n int) []Trouble {
	return []Trouble{
		farther(n, 2*time.Millisecond), farther(n, 30*time.Millisecond), farther(n, 200*time.Millisecond), slow(n, 30*time.Millisecond),
		hung(n), refused(n), flapping(n), lossy(n),
	}
}

// endure adds what a contender does in a hardship. All is well when it returns.
func (b *Bench) endure(ctx context.Context, t *Table, c Contender, h hardship) {
	before := runtime.NumGoroutine()
	addrs := b.Site.Addrs()
	if h.proxied {
		addrs = b.Site.proxies.addrs
	}
	session := c.Open(addrs[nodes-cmp.Or(h.of, nodes):], Setup{Goroutines: h.callers, CallTimeout: callTimeout})
	load := &Load{Session: session, Callers: h.callers, Keys: h.keys, Wait: h.keys > 0, Rest: h.tries}
	if h.one {
		load.Key = crowdKey()
	}
	load.Start(ctx)
	values := b.struck(ctx, load, h)
	load.Stop()
	if h.Name == allFarther.Name {
		values["trips"] = values["lock p90"] / away.Seconds()
	}
	end := func() {
		start := time.Now()
		b.end(session)
		values["close"] = time.Since(start).Seconds()
	}
	if h.closed {
		end()
	}
	b.Site.mend(ctx, h.Trouble)
	if !h.closed {
		pause(ctx, 200*time.Millisecond) // a server that has just woken up may have more in its buffers
		values["keys left"] = within(ctx, 3*time.Second, b.Site.Keys)
		end()
	}
	values["goroutines"] = within(ctx, time.Second, func() int { return max(0, runtime.NumGoroutine()-before) })
	t.Add(Key{c.Name(), h.callers, h.title()}, values)
}

// within is the count when it is 0, or the time has passed.
func within(ctx context.Context, long time.Duration, count func() int) float64 {
	for start := time.Now(); ; pause(ctx, 20*time.Millisecond) {
		if n := count(); n == 0 || time.Since(start) > long {
			return float64(n)
		}
	}
}

// struck measures the load in good health, and again some time after the trouble has begun.
func (b *Bench) struck(ctx context.Context, load *Load, h hardship) map[string]float64 {
	load.Warm(ctx)
	well := load.Window(ctx, h.well)
	check(h.strike(b.Site))
	if h.tries == 0 {
		pause(ctx, callTimeout+100*time.Millisecond) // until everybody has noticed: longer than every time-out
	}
	load.Dirty = h.computes
	var heap float64
	if !h.computes {
		heap = inUse()
	}
	ill := load.Window(ctx, h.ill)
	values, healthy := ill.values(), well.values()
	if !h.computes {
		values["MiB more"] = (inUse() - heap) / (1 << 20)
	}
	values["healthy cycles"] = healthy["cycles"]
	values["share"] = values["cycles"] / healthy["cycles"]
	if h.tries == 0 {
		b.tell(&ill)
	} else if ill.Lock.count > 1 { // one began before
		check(fmt.Errorf("%s: a try succeeded without a quorum", h.Name))
	}
	values["median"], values["worst"] = ill.Lost.seconds(0.5), ill.Lost.longest.Seconds()
	if ill.Lock.count > 0 {
		values["p99 ratio"] = max(values["lock p99"]/healthy["lock p99"], values["unlock p99"]/healthy["unlock p99"])
	}
	return values
}
