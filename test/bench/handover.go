package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

var handover = Case{
	Name: "handover",
	About: "one holder and one waiter, which has been waiting for 10 to 30 ms, on two sessions by turns; the time from before the release to the waiter's lock, " +
		"200 times (at peers as many as 8 s allow); the floor is a bare release and, as soon as it is had, a bare lock of another session, of which nobody has to be told",
	Columns: []Column{
		{"handovers", "hand-overs", whole},
		{"p50", "p50", duration},
		{"p90", "p90", duration},
		{"p99", "p99", duration},
	},
	Run: runHandover,
}

// oneWaiter is the only situation.
const oneWaiter = "one waiter"

func runHandover(ctx context.Context, b *Bench, t *Table) error {
	span := Span{Cycles: 200, Most: 8 * time.Second}
	if b.Quick {
		span = Span{Cycles: 20, Most: time.Second}
	}
	with := b.waiting()
	with.Contenders = append(slices.Clone(with.Contenders), bare)
	return with.turns(ctx, t, b.fewerRounds(), []int{1}, func(c Contender, goroutines int) error {
		over := handOvers
		if c.Name() == bare.Name() {
			over = takeOvers
		}
		times, err := relay(ctx, b, c, Setup{Goroutines: goroutines, TTL: ttl}, span, over)
		if err != nil {
			return err
		}
		t.Add(Key{Contender: c.Name(), Situation: oneWaiter}, map[string]float64{
			"handovers": float64(times.count),
			"p50":       times.quantile(0.5).Seconds(),
			"p90":       times.quantile(0.9).Seconds(),
			"p99":       times.quantile(0.99).Seconds(),
		})
		return b.Site.Flush()
	})
}

// relay opens two sessions and lets them hand a key to and fro.
func relay(ctx context.Context, b *Bench, c Contender, setup Setup, span Span, over func(context.Context, [2]Session, Span) (*latencies, error)) (*latencies, error) {
	var sessions [2]Session
	for i := range sessions {
		session, err := c.Open(b.Site.Addrs(), setup)
		if err != nil {
			return nil, err
		}
		defer b.end(session)
		sessions[i] = session
	}
	return over(ctx, sessions, span)
}

// takeOvers lets the sessions take a key by turns as soon as it is free: they know.
func takeOvers(ctx context.Context, sessions [2]Session, span Span) (*latencies, error) {
	key := fmt.Sprintf("bench:%016x", time.Now().UnixNano())
	hold, err := sessions[0].Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	times := new(latencies)
	for start, i := time.Now(), 1; times.count < span.Cycles && time.Since(start) < span.Most; i++ {
		released, err := release(ctx, hold, nil)
		if err != nil {
			return nil, err
		}
		for { // at first no quorum may know the release: two of those that do may be slow
			if hold, err = sessions[i%2].Lock(ctx, key); err == nil {
				break
			}
			if !errors.Is(err, errBare) {
				return nil, err
			}
			_ = hold.Release(ctx) // what it has got
		}
		times.add(time.Since(released))
	}
	return times, hold.Release(ctx)
}

func handOvers(ctx context.Context, sessions [2]Session, span Span) (*latencies, error) {
	const warm = 4 // connections and scripts are there from then on
	ctx, cancel := context.WithCancel(ctx)
	var waiters sync.WaitGroup
	defer waiters.Wait()
	defer cancel()
	key := fmt.Sprintf("bench:%016x", time.Now().UnixNano())
	hold, err := sessions[0].Wait(ctx, key)
	if err != nil {
		return nil, err
	}
	times := new(latencies)
	start := time.Now()
	for i := 0; times.count < span.Cycles && time.Since(start) < span.Most; i++ {
		to := sessions[(i+1)%2]
		waiter := make(chan taking, 1)
		waiters.Go(func() {
			hold, err := to.Wait(ctx, key)
			waiter <- taking{hold, err, time.Now()}
		})
		released, err := release(ctx, hold, waiter)
		if err != nil {
			return nil, err
		}
		taken := <-waiter
		if taken.err != nil {
			return nil, taken.err
		}
		if hold = taken.hold; i >= warm {
			times.add(taken.at.Sub(released))
		}
	}
	return times, hold.Release(ctx)
}

// taking is when and how a waiter came to its lock.
type taking struct {
	hold Hold
	err  error
	at   time.Time
}

// release lets the waiter wait for some time, releases what it waits for, and returns
// when it began to.
func release(ctx context.Context, hold Hold, waiter <-chan taking) (time.Time, error) {
	if err := pause(ctx, 10*time.Millisecond+rand.N(20*time.Millisecond)); err != nil { //nolint:gosec // no secret
		return time.Time{}, err
	}
	select {
	case early := <-waiter:
		return time.Time{}, errors.Join(errors.New("the waiter did not wait for the release"), early.err)
	default:
	}
	start := time.Now()
	return start, hold.Release(ctx)
}
