package main

import (
	"context"
	"errors"
	"slices"
)

// concurrency is how many goroutines lock at once, each keys of its own.
var concurrency = []int{1, 16, 128, 1024}

var throughput = Case{
	Name:    "throughput",
	About:   "cycles on keys of their own; allocations and processor time are those of one cycle; the floor is the bare commands and votes, over connections written by hand",
	Columns: slices.Concat(loadColumns[:1], []Column{{"share", "of the floor", percent}}, loadColumns[1:], throughputColumns),
	Run:     runThroughput,
}

// throughputColumns are those of a cycle's cost.
var throughputColumns = []Column{
	{"allocs", "allocs", decimal},
	{"client cpu", "client CPU", duration},
	{"server cpu", "all servers' CPU", duration},
	{"failed", "failed", whole},
}

func runThroughput(ctx context.Context, b *Bench, t *Table) error {
	with := *b
	with.Contenders = append(slices.Clone(b.Contenders), bare)
	err := with.turns(ctx, t, b.Rounds, concurrency, func(c Contender, goroutines int) error {
		session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl})
		if err != nil {
			return err
		}
		err = measureThroughput(ctx, b, t, Key{Contender: c.Name(), Goroutines: goroutines}, session, b.Site.Cluster)
		return errors.Join(err, b.Site.Flush())
	})
	for _, row := range t.Rows {
		if floor := t.Row(Key{Contender: bare.Name(), Goroutines: row.Goroutines}); floor != nil {
			for i, cycles := range row.Rounds["cycles"] {
				row.Rounds["share"] = append(row.Rounds["share"], cycles/floor.Rounds["cycles"][i])
			}
		}
	}
	return err
}

// measureThroughput adds the figures of a session under load to a row, and ends the session.
func measureThroughput(ctx context.Context, b *Bench, t *Table, key Key, session Session, servers *Cluster) error {
	defer b.end(session)
	return withLoad(ctx, session, key.Goroutines, func(load *Load) error {
		before, err := servers.CPU()
		if err != nil {
			return err
		}
		done := load.Done()
		sample, err := load.Window(ctx, b.span(key.Goroutines))
		if err != nil {
			return err
		}
		// Asking a busy server takes its time, in which cycles go on.
		cycles := load.Done() - done
		after, err := servers.CPU()
		b.tell(&sample)
		values := sample.values()
		values["server cpu"] = (after - before).Seconds() / float64(cycles)
		t.Add(key, values)
		return err
	})
}
