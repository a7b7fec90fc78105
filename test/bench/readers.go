package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// reading is how long a reader has the key, on average.
const reading = 50 * time.Millisecond

var readers = Case{
	Name: "readers",
	About: "goroutines on two sessions that read under one key for 25 to 75 ms each, again and again, and a writer on another one, which asks 100 ms after its last write " +
		"and writes for 1 ms; for 3 s, and for 1 s before without the writer",
	Columns: []Column{
		{"alone", "reads/s alone", whole},
		{"reads", "reads/s", whole},
		{"writes", "writes", whole},
		{"p50", "a writer waits, p50", duration},
		{"most", "at most", duration},
		{"commands", "a node's commands", whole},
	},
	Run: runReaders,
}

func runReaders(ctx context.Context, b *Bench, t *Table) error {
	only := *b.waiting()
	only.Contenders = nil
	for _, c := range b.Contenders {
		if c.ours() {
			only.Contenders = append(only.Contenders, c)
		}
	}
	if len(only.Contenders) == 0 {
		return nil // nobody else has readers over several nodes
	}
	return only.turns(ctx, t, b.fewerRounds(), []int{32, 256}, func(c Contender, goroutines int) error {
		sessions := make([]*redlockSession, 3)
		for i := range sessions {
			session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl})
			if err != nil {
				return err
			}
			defer b.end(session)
			sessions[i] = session.(*redlockSession)
		}
		values, err := b.readAndWrite(ctx, sessions, goroutines)
		if err != nil {
			return err
		}
		t.Add(Key{Contender: c.Name(), Goroutines: goroutines}, values)
		return b.Site.Flush()
	})
}

// readAndWrite lets goroutines read on the sessions but the last, which writes.
func (b *Bench) readAndWrite(ctx context.Context, sessions []*redlockSession, goroutines int) (map[string]float64, error) {
	alone, long := time.Second, 3*time.Second
	if b.Quick {
		alone, long = 200*time.Millisecond, 300*time.Millisecond
	}
	key := crowdKey()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var reads atomic.Int64
	var over sync.WaitGroup
	last := len(sessions) - 1
	for i := range goroutines {
		over.Go(func() {
			for ctx.Err() == nil {
				if err := read(ctx, sessions[i%last], key); err != nil && ctx.Err() == nil {
					cancel(err)
				} else {
					reads.Add(1)
				}
			}
		})
	}
	values := map[string]float64{}
	if err := pause(ctx, alone); err != nil {
		return nil, err
	}
	before := reads.Load()
	if err := pause(ctx, alone); err != nil {
		return nil, err
	}
	values["alone"] = float64(reads.Load()-before) / alone.Seconds()
	before = reads.Load()
	waits := new(latencies)
	most := time.Duration(0)
	commands, err := b.Site.commandsDuring(func() error {
		for start := time.Now(); time.Since(start) < long; {
			asked := time.Now()
			hold, err := sessions[last].Wait(ctx, key)
			if err != nil {
				return err
			}
			wait := time.Since(asked)
			waits.add(wait)
			most = max(most, wait)
			if err := errors.Join(pause(ctx, time.Millisecond), hold.Release(ctx), pause(ctx, 100*time.Millisecond)); err != nil {
				return err
			}
		}
		return nil
	})
	values["reads"] = float64(reads.Load()-before) / long.Seconds()
	values["writes"], values["commands"] = float64(waits.count), commands
	values["p50"], values["most"] = waits.quantile(0.5).Seconds(), most.Seconds()
	cause := context.Cause(ctx)
	cancel(nil)
	over.Wait()
	return values, errors.Join(err, cause)
}

// read has the key as a reader for a moment.
func read(ctx context.Context, s *redlockSession, key string) error {
	lock, err := s.locker.AcquireShared(ctx, key)
	if err != nil {
		return err
	}
	time.Sleep(reading/2 + rand.N(reading)) //nolint:gosec // no secret
	return lock.Release(context.WithoutCancel(ctx))
}
