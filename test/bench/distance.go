package main

import (
	"context"
	"errors"
	"slices"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

// away is how far every node is.
const away = 5 * time.Millisecond

var distance = Case{
	Name:  "distance",
	About: "the same with every node 5 ms away, behind a proxy that delays; the round trip is that of the bench's own PING through it",
	Columns: slices.Concat([]Column{
		{"ping", "round trip", duration},
		{"trips", "lock p90 in round trips", twofold},
	}, loadColumns, []Column{{"failed", "failed", whole}}),
	Run: runDistance,
}

func runDistance(ctx context.Context, b *Bench, t *Table) error {
	if err := b.Site.move(away); err != nil {
		return err
	}
	err := measureDistance(ctx, b, t)
	return errors.Join(err, b.Site.move(0))
}

func measureDistance(ctx context.Context, b *Bench, t *Table) error {
	return b.turns(ctx, t, b.fewerRounds(), []int{16, 128}, func(c Contender, goroutines int) error {
		ping, err := roundTrip(b.Site.delay.Addrs()[0])
		if err != nil {
			return err
		}
		session, err := c.Open(b.Site.delay.Addrs(), Setup{Goroutines: goroutines, TTL: ttl})
		if err != nil {
			return err
		}
		err = withLoad(ctx, session, goroutines, func(load *Load) error {
			sample, err := load.Window(ctx, b.span(goroutines))
			b.tell(&sample)
			values := sample.values()
			values["ping"] = ping.Seconds()
			values["trips"] = values["lock p90"] / values["ping"]
			t.Add(Key{Contender: c.Name(), Goroutines: goroutines}, values)
			return err
		})
		b.end(session)
		return errors.Join(err, b.Site.Flush())
	})
}

// roundTrip is the median time of a PING, on a quiet line.
func roundTrip(addr string) (time.Duration, error) {
	conn, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	var trips latencies
	for range 30 {
		start := time.Now()
		if _, err := redigo.String(conn.Do("PING")); err != nil {
			return 0, err
		}
		trips.add(time.Since(start))
	}
	return trips.quantile(0.5), nil
}
