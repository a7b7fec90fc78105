package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quorumlock/quorumlock/redlock"
)

// A safeguard is what may be turned on beside the plain lock.
type safeguard struct {
	name    string
	options []redlock.Option
	again   bool // keys come again
}

var safeguards = []safeguard{
	{"plain", nil, false},
	{"fences", []redlock.Option{redlock.WithFences()}, false},
	{"guard", []redlock.Option{redlock.WithRestartGuard(ttl)}, false},
	{"fences and guard", []redlock.Option{redlock.WithFences(), redlock.WithRestartGuard(ttl)}, false},
	{"plain, keys that come again", nil, true},
	{"fences, keys that come again", []redlock.Option{redlock.WithFences()}, true},
}

var safety = Case{
	Name:  "safety",
	About: "the same cycles with fences, with the restart guard and with both, on keys that are used once, and on 256 of each goroutine that come again; second rounds are those of the fences, one node's, for 1,000 cycles",
	Columns: slices.Concat(loadColumns[:1], []Column{
		{"share", "of the plain", percent},
		{"lock p50", "lock p50", duration},
		{"lock p99", "p99", duration},
		{"allocs", "allocs", decimal},
		{"client cpu", "client CPU", duration},
		{"server cpu", "all servers' CPU", duration},
		{"seconds", "second rounds", twofold},
		{"failed", "failed", whole},
	}),
	Run: runSafety,
}

func runSafety(ctx context.Context, b *Bench, t *Table) error {
	ours := *b
	ours.Contenders = redlocks()
	return ours.turns(ctx, t, b.Rounds, []int{1, 128}, func(c Contender, goroutines int) error {
		plain := 0.0
		for _, s := range safeguards {
			values, err := guarded(ctx, b, c, goroutines, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if s.options == nil {
				plain = values["cycles"]
			}
			values["share"] = values["cycles"] / plain
			t.Add(Key{Contender: c.Name(), Goroutines: goroutines, Situation: s.name}, values)
		}
		return nil
	})
}

// guarded is the load with a safeguard.
func guarded(ctx context.Context, b *Bench, c Contender, goroutines int, s safeguard) (values map[string]float64, err error) {
	session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl, Options: s.options})
	if err != nil {
		return nil, err
	}
	defer func() {
		b.end(session)
		err = errors.Join(err, b.Site.Flush())
	}()
	if err := session.(*redlockSession).locker.AdmitNewNodes(ctx); err != nil && !errors.Is(err, redlock.ErrOption) { // an option error: there is no guard
		return nil, err
	}
	err = measureLoad(ctx, startLoadOn(session, goroutines, s.again), func(load *Load) error {
		cpu, err := b.Site.CPU()
		if err != nil {
			return err
		}
		done := load.Done()
		var sample Sample
		raises, err := b.Site.callsDuring("zscore", func() error {
			sample, err = load.Window(ctx, b.span(goroutines))
			return err
		})
		if err != nil {
			return err
		}
		cycles := float64(load.Done() - done)
		after, err := b.Site.CPU()
		b.tell(&sample)
		values = sample.values()
		values["server cpu"] = (after - cpu).Seconds() / cycles
		values["seconds"] = 1000 * raises / cycles
		return err
	})
	return values, err
}

// safetyFloors are what the safeguards may cost.
func safetyFloors() []Floor {
	return []Floor{
		shareFloor("fences", 128, 0.5), shareFloor("fences, keys that come again", 128, 0.6), shareFloor("fences", 1, 0.85),
		shareFloor("guard", 128, 0.95),
		worst("second rounds of a node in 1,000 fenced cycles", safety.Name, "seconds", "fences", 1, true, twofold),
	}
}

// shareFloor takes the worst of our clients.
func shareFloor(safeguard string, goroutines int, want float64) Floor {
	key := Key{Goroutines: goroutines, Situation: safeguard}
	return Floor{
		Text: "cycles of the plain ones, with " + key.title(), Want: want, Form: percent,
		Measure: func(r *Report) (float64, string) {
			value, at := math.NaN(), ""
			for _, c := range redlocks() {
				key.Contender = c.Name()
				if v := r.Table(safety.Name).Row(key).Median("share"); !(v >= value) {
					value, at = v, "at worst: "+c.Name()
				}
			}
			return value, at
		},
	}
}
