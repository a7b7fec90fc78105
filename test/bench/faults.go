package main

import (
	"context"
	"errors"
)

// callTimeout bounds the calls of libraries that leave that to their caller: what
// redsync gives to a lock with this TTL.
const callTimeout = ttl / 20

var faults = Case{
	Name: "faults",
	About: "the same with a minority of the nodes in trouble, against the same session just before; p99 against healthy is the worse of lock and unlock; " +
		"the session is closed while the trouble lasts, and the goroutines that it leaves behind are counted a second later",
	Columns: []Column{
		{"healthy cycles", "healthy cycles/s", whole},
		{"cycles", "cycles/s", whole},
		{"share", "share", percent},
		{"healthy lock p99", "healthy lock p99", duration},
		{"lock p99", "lock p99", duration},
		{"healthy unlock p99", "healthy unlock p99", duration},
		{"unlock p99", "unlock p99", duration},
		{"p99 ratio", "p99 against healthy", twofold},
		{"failed", "failed", whole},
		{"goroutines", "goroutines left", whole},
	},
	Run: runFaults,
}

func runFaults(ctx context.Context, b *Bench, t *Table) error {
	concurrency := []int{16, 128}
	if b.Quick {
		concurrency = concurrency[1:]
	}
	for _, fault := range b.some(minorities) {
		err := b.turns(ctx, t, b.fewerRounds(), concurrency, func(c Contender, goroutines int) error {
			// Peers take their time here: once is enough, and for those that wait for
			// every node, with many goroutines.
			if !c.ours() && t.Row(Key{c.Name(), goroutines, fault.Name}) != nil || !c.failFast() && goroutines < 128 {
				return nil
			}
			values, err := harm(ctx, b, c, goroutines, fault)
			if err != nil {
				return err
			}
			t.Add(Key{c.Name(), goroutines, fault.Name}, values)
			return errors.Join(b.Site.mend(ctx, fault), b.Site.Flush())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// harm measures a session before and while the fault lasts, and closes it. The fault
// lasts on.
func harm(ctx context.Context, b *Bench, c Contender, goroutines int, fault Fault) (map[string]float64, error) {
	before := takeCensus()
	session, err := c.Open(b.Site.addrs(fault), Setup{Goroutines: goroutines, TTL: ttl, CallTimeout: callTimeout})
	if err != nil {
		return nil, err
	}
	var values map[string]float64
	err = withLoad(ctx, session, goroutines, func(load *Load) (err error) {
		values, err = struck(ctx, b, load, fault)
		return err
	})
	b.end(session)
	if err != nil {
		return nil, err
	}
	return values, before.note(ctx, fault, values)
}

// struck measures the load in good health, and again some time after the fault has
// struck. The fault lasts on.
func struck(ctx context.Context, b *Bench, load *Load, fault Fault) (map[string]float64, error) {
	span := b.span(len(load.workers))
	span.Least = 3 * span.Least / 5 // there are many of them
	healthy, err := load.Window(ctx, span)
	if err != nil {
		return nil, err
	}
	if err := fault.strike(b.Site); err != nil {
		return nil, err
	}
	if _, err := load.Window(ctx, Span{Least: fault.settle, Most: fault.settle}); err != nil {
		return nil, err
	}
	harmed, err := load.Window(ctx, span)
	b.tell(&harmed)
	values, before := harmed.values(), healthy.values()
	for _, metric := range []string{"cycles", "lock p99", "unlock p99"} {
		values["healthy "+metric] = before[metric]
	}
	values["share"] = values["cycles"] / before["cycles"]
	if harmed.Cycles > 0 {
		values["p99 ratio"] = max(values["lock p99"]/before["lock p99"], values["unlock p99"]/before["unlock p99"])
	}
	return values, err
}
