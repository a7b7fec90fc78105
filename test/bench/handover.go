package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

var handover = Case{
	Name: "handover",
	About: "one holder and one waiter, which has been waiting for 10 to 30 ms, on two sessions by turns; the time from before the release to the waiter's lock, " +
		"200 times (at peers as many as 8 s allow); the floor is a bare release and, as soon as it is had, a bare lock of another session, of which nobody has to be told",
	Columns: []string{"handovers", "p50", "p90", "p99"},
	Run:     runHandover,
}

const oneWaiter = "one waiter"

func runHandover(ctx context.Context, b *Bench, t *Table) {
	span := Span{Cycles: 200, Most: 8 * time.Second}
	if b.Quick {
		span = Span{Cycles: 20, Most: time.Second}
	}
	turns(ctx, b.with(append(slices.Clone(b.Waiters), bare)), t, b.fewerRounds(), []string{oneWaiter}, func(c Contender, situation string) {
		sessions := [2]Session{b.open(c, Setup{Goroutines: 1}), b.open(c, Setup{Goroutines: 1})}
		times := handOvers(ctx, sessions, span, c.Name() != bare.Name())
		b.end(sessions[0])
		b.end(sessions[1])
		t.Add(Key{Contender: c.Name(), Situation: situation}, map[string]float64{
			"handovers": float64(times.count), "p50": times.seconds(0.5), "p90": times.seconds(0.9), "p99": times.seconds(0.99),
		})
	})
}

// handOvers lets the sessions have a key by turns. The next one waits for it, or asks as soon as it
// is released.
func handOvers(ctx context.Context, sessions [2]Session, span Span, waits bool) *latencies {
	type taking struct {
		hold Hold
		err  error
		at   time.Time
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // nobody waits any more
	key, times := crowdKey(), new(latencies)
	hold := must(sessions[0].Wait(ctx, key))
	start := time.Now()
	for i := 1; times.count < span.Cycles && time.Since(start) < span.Most; i++ {
		waiter := make(chan taking, 1)
		take := func() {
			hold, err := sessions[i%2].Wait(ctx, key)
			waiter <- taking{hold, err, time.Now()}
		}
		if waits {
			go take()
		}
		pause(ctx, 10*time.Millisecond+rand.N(20*time.Millisecond)) //nolint:gosec // no secret
		if len(waiter) > 0 {
			check(errors.Join(errors.New("the waiter did not wait for the release"), (<-waiter).err))
		}
		released := time.Now()
		check(hold.Release())
		if !waits {
			take()
		}
		taken := <-waiter
		check(taken.err)
		if hold = taken.hold; i > 4 { // connections and scripts are there from then on
			times.add(taken.at.Sub(released))
		}
	}
	check(hold.Release())
	return times
}
