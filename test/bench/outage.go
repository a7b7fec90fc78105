package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

var outage = Case{
	Name:  "outage",
	About: "no quorum: how long a try takes until it fails with three of the five nodes refused or hung, one try after the other in one goroutine",
	Columns: []Column{
		{"first", "first try", duration},
		{"median", "median", duration},
		{"worst", "worst", duration},
	},
	Run: runOutage,
}

func runOutage(ctx context.Context, b *Bench, t *Table) error {
	for _, fault := range b.some(majorities) {
		tries := 10
		if fault.down == 0 {
			tries = 4 // each lasts as long as a time-out
		}
		err := b.turns(ctx, t, b.fewerRounds(), []int{1}, func(c Contender, goroutines int) error {
			if !c.ours() && t.Row(Key{Contender: c.Name(), Situation: fault.Name}) != nil {
				return nil // their time-outs are the longer ones: once is enough
			}
			session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl, CallTimeout: callTimeout})
			if err != nil {
				return err
			}
			values, err := failing(ctx, b, session, fault, tries)
			b.end(session)
			if err != nil {
				return err
			}
			t.Add(Key{Contender: c.Name(), Situation: fault.Name}, values)
			return errors.Join(b.Site.mend(ctx, fault), b.Site.Flush())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// failing warms the session up, lets the fault strike and times tries.
func failing(ctx context.Context, b *Bench, session Session, fault Fault, tries int) (map[string]float64, error) {
	names := keys{prefix: fmt.Sprintf("bench:%016x:%04d", time.Now().UnixNano(), 0)}
	for range 20 {
		hold, err := session.Lock(ctx, names.next())
		if err == nil {
			err = hold.Release(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := fault.strike(b.Site); err != nil {
		return nil, err
	}
	var times []float64
	for range tries {
		start := time.Now()
		if _, err := session.Lock(ctx, names.next()); err == nil {
			return nil, fmt.Errorf("%s: a try succeeded without a quorum", fault.Name)
		}
		times = append(times, time.Since(start).Seconds())
	}
	return map[string]float64{"first": times[0], "median": median(times), "worst": slices.Max(times)}, nil
}
