package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// leftovers looks at a session that lives on when the nodes come back, and closing at
// one of ours that was closed before. The contenders that wait for every node are left
// out: they get through a few hundred cycles in the time.
var (
	leftovers = Case{
		Name: "leftovers",
		About: "what is left on the nodes when 50,000 cycles (at peers as many as 3 s allow) have ended with a minority of them in trouble, and all are well again; " +
			"keys are counted as soon as all nodes answer, and again until there are none or 3 s have passed; then the session is closed",
		Columns: leftoverColumns,
		Run: func(ctx context.Context, b *Bench, t *Table) error {
			return farewell{ttl: ttl, wait: 3 * time.Second}.run(ctx, b, t, minorities)
		},
	}
	closing = Case{
		Name:    "closing",
		About:   "the same where the session is closed while the nodes hang; then nobody can release what they find in their buffers, and it goes with its TTL of 2 s (keys left: one second after that)",
		Columns: leftoverColumns,
		Run: func(ctx context.Context, b *Bench, t *Table) error {
			return farewell{ttl: 2 * time.Second, wait: 3 * time.Second, closed: true}.run(ctx, b, t, []Fault{hung(1), hung(2)})
		},
	}
	leftoverColumns = []Column{
		{"done", "cycles", whole},
		{"failed", "failed", whole},
		{"keys at once", "keys at once", whole},
		{"keys left", "keys left", whole},
		{"ttl left", "with a TTL of", duration},
		{"gone", "counted after", duration},
		{"close", "Close took", duration},
		{"goroutines", "goroutines left", whole},
	}
)

// farewell is how a session and the nodes part.
type farewell struct {
	ttl    time.Duration
	wait   time.Duration // how long keys may take to go
	closed bool          // the session is closed before the nodes come back
}

func (f farewell) run(ctx context.Context, b *Bench, t *Table, faults []Fault) error {
	fast := *b
	fast.Contenders = slices.DeleteFunc(slices.Clone(b.Contenders), func(c Contender) bool {
		return !c.failFast() || (b.Quick || f.closed) && !c.ours()
	})
	for _, fault := range b.some(faults) {
		err := fast.turns(ctx, t, 1, []int{128}, func(c Contender, goroutines int) error {
			values, err := f.part(ctx, b, c, goroutines, fault)
			if err != nil {
				return err
			}
			t.Add(Key{c.Name(), goroutines, fault.Name}, values)
			return b.Site.Flush()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cycles is how many make up a farewell.
func (b *Bench) cycles(c Contender) Span {
	span := Span{Cycles: 50_000, Most: time.Minute}
	if !c.ours() {
		span.Most = 3 * time.Second
	}
	if b.Quick {
		span.Cycles = 2_000
	}
	return span
}

// part lets the contender do its cycles while the fault lasts, and counts what is
// left afterwards.
func (f farewell) part(ctx context.Context, b *Bench, c Contender, goroutines int, fault Fault) (map[string]float64, error) {
	before := takeCensus()
	session, err := c.Open(b.Site.addrs(fault), Setup{Goroutines: goroutines, TTL: f.ttl, CallTimeout: f.ttl / 20})
	if err != nil {
		return nil, err
	}
	var sample Sample
	err = withLoad(ctx, session, goroutines, func(load *Load) error {
		if err := fault.strike(b.Site); err != nil {
			return err
		}
		sample, err = load.Window(ctx, b.cycles(c))
		b.tell(&sample)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	values := map[string]float64{"done": float64(sample.Cycles), "failed": float64(sample.Failed)}
	if f.closed {
		f.close(b, session, values)
		err = before.note(ctx, fault, values)
	}
	if err = errors.Join(err, b.Site.mend(ctx, fault)); err == nil {
		err = f.count(ctx, b.Site, values)
	}
	if !f.closed {
		f.close(b, session, values)
		err = errors.Join(err, before.note(ctx, Fault{}, values))
	}
	return values, err
}

func (farewell) close(b *Bench, session Session, values map[string]float64) {
	start := time.Now()
	b.end(session)
	values["close"] = time.Since(start).Seconds()
}

// count waits until the nodes have no keys any more, or the time is up.
func (f farewell) count(ctx context.Context, site *Site, values map[string]float64) error {
	start := time.Now()
	for {
		keys, left, err := site.Keys()
		if _, again := values["keys at once"]; !again {
			values["keys at once"] = float64(keys)
		}
		passed := time.Since(start)
		values["keys left"], values["ttl left"], values["gone"] = float64(keys), left.Seconds(), passed.Seconds()
		if err != nil || keys == 0 && passed > settled || passed > f.wait {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// settled is when the count may end at the earliest: a server that has just woken up
// may have more in its buffers.
const settled = 200 * time.Millisecond
