package main

import (
	"context"
	"errors"
	"slices"
)

// concurrency is how many goroutines lock at once, each keys of its own.
var concurrency = []int{1, 16, 128, 1024}

var throughput = Case{
	Name:  "throughput",
	About: "cycles on keys of their own; allocations and processor time are those of one cycle",
	Columns: slices.Concat(loadColumns, []Column{
		{"allocs", "allocs", decimal},
		{"client cpu", "client CPU", duration},
		{"server cpu", "all servers' CPU", duration},
		{"failed", "failed", whole},
	}),
	Run: runThroughput,
}

func runThroughput(ctx context.Context, b *Bench, t *Table) error {
	return b.turns(ctx, t, b.Rounds, concurrency, func(c Contender, goroutines int) error {
		session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl})
		if err != nil {
			return err
		}
		err = withLoad(ctx, session, goroutines, func(load *Load) error {
			before, err := b.Site.CPU()
			if err != nil {
				return err
			}
			done := load.Done()
			sample, err := load.Window(ctx, b.span(goroutines))
			if err != nil {
				return err
			}
			// Asking a busy server takes its time, in which cycles go on.
			cycles := load.Done() - done
			after, err := b.Site.CPU()
			b.tell(&sample)
			values := sample.values()
			values["server cpu"] = (after - before).Seconds() / float64(cycles)
			t.Add(Key{Contender: c.Name(), Goroutines: goroutines}, values)
			return err
		})
		b.end(session)
		return errors.Join(err, b.Site.Flush())
	})
}
