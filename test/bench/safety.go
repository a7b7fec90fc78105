package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

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
	About: "the same cycles with fences, with the restart guard and with both, on keys that are used once, and on 256 of each goroutine that come again; second rounds are those for fences, of 1,000 cycles of another load, which is told of them",
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
			if values["seconds"], err = secondRounds(ctx, b, c, goroutines, s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			t.Add(Key{Contender: c.Name(), Goroutines: goroutines, Situation: s.name}, values)
		}
		return nil
	})
}

// guarded is the load with a safeguard.
func guarded(ctx context.Context, b *Bench, c Contender, goroutines int, s safeguard) (values map[string]float64, err error) {
	err = s.load(ctx, b, c, goroutines, func(load *Load) error {
		cpu, err := b.Site.CPU()
		if err != nil {
			return err
		}
		done := load.Done()
		sample, err := load.Window(ctx, b.span(goroutines))
		if err != nil {
			return err
		}
		cycles := float64(load.Done() - done)
		after, err := b.Site.CPU()
		b.tell(&sample)
		values = sample.values()
		values["server cpu"] = (after - cpu).Seconds() / cycles
		return err
	})
	return values, err
}

// load puts a load on a session with the safeguard, and calls measure.
func (s *safeguard) load(ctx context.Context, b *Bench, c Contender, goroutines int, measure func(*Load) error, hooks ...redlock.Option) (err error) {
	session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl, Options: slices.Concat(s.options, hooks)})
	if err != nil {
		return err
	}
	defer func() {
		b.end(session)
		err = errors.Join(err, b.Site.Flush())
	}()
	if err := session.(*redlockSession).locker.AdmitNewNodes(ctx); err != nil && !errors.Is(err, redlock.ErrOption) { // an option error: there is no guard
		return err
	}
	return measureLoad(ctx, startLoadOn(session, goroutines, s.again), measure)
}

// secondRounds is how many of 1,000 cycles take a second round for their fence. Its load is told of
// them, which costs it something.
func secondRounds(ctx context.Context, b *Bench, c Contender, goroutines int, s safeguard) (share float64, err error) {
	var cycles, rounds atomic.Int64
	err = s.load(ctx, b, c, goroutines, func(load *Load) error {
		_, err := load.Window(ctx, Span{Least: b.Duration / 4, Most: 5 * b.Duration, Cycles: uint64(goroutines)}) //nolint:gosec // not negative
		return err
	}, countRounds(&cycles, &rounds))
	return 1000 * float64(rounds.Load()) / float64(max(1, cycles.Load())), err
}

// countRounds counts acquires, and further rounds for their fences.
func countRounds(acquires, rounds *atomic.Int64) redlock.Option {
	return redlock.WithHooks(redlock.Hooks{AcquireEnd: func(_ context.Context, e redlock.AcquireEnd) {
		acquires.Add(1)
		rounds.Add(int64(e.FenceRounds))
	}})
}

// safetyFloors are what the safeguards may cost.
func safetyFloors() []Floor {
	return []Floor{
		shareFloor("fences", 128, 0.5), shareFloor("fences, keys that come again", 128, 0.6), shareFloor("fences", 1, 0.85),
		shareFloor("guard", 128, 0.95),
		worst("second rounds of 1,000 fenced cycles", safety.Name, "seconds", "fences", 1, true, twofold),
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
