package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/inspect"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

var trims = Case{
	Name: "trims",
	About: "keys that are taken once each with fences (-keys), by two clients, over go-redis with a TTL of 10 s and over redigo with one of 1 min, each 64 goroutines; the two take 16 keys by turns " +
		"beside these. With one set, nodes have a counter for each of as many keys, a million at the most, an hour old and in one set, and the keys go into that. Memory is a node's",
	Columns: []string{"cycles", "memory", "second rounds", "fences back", "failed"},
	Apart:   true,
	Run:     runTrims,
}

func runTrims(ctx context.Context, b *Bench, t *Table) {
	add := func(situation, prefix string, apart bool) {
		b.Log.Printf("%s: %s", t.Name, situation)
		t.Add(Key{find("redlock", "go-redis", "").Name(), 128, situation}, b.trim(ctx, prefix, apart))
	}
	add("keys once each", "bench:", false)
	add("one set", "{bench}:", false)
	add("clocks a year off", "bench:", true)
}

// trim takes keys of that prefix once each, from nodes of which two may have clocks that are a year
// off.
func (b *Bench) trim(ctx context.Context, prefix string, apart bool) map[string]float64 {
	site := startCluster(nodes, server.Setup{Clock: apart})
	defer site.Close()
	if apart {
		const year = 365 * 24 * time.Hour
		check(site[0].StepClock(year))
		check(site[1].StepClock(-year))
	}
	if strings.HasPrefix(prefix, "{") {
		fillFenceSet(site, prefix, min(b.Keys, 1_000_000))
	}
	var failed, acquires, rounds, back atomic.Int64
	var last [16]atomic.Int64 // of keys that both clients take
	var sessions [2]*redlockSession
	for i, c := range redlocks()[:2] {
		session := c.Open(site.Addrs(), Setup{TTL: []time.Duration{10 * time.Second, time.Minute}[i], Options: []redlock.Option{redlock.WithFences(), countRounds(&acquires, &rounds)}})
		defer b.end(session)
		sessions[i] = session.(*redlockSession)
	}
	take := func(session *redlockSession, key string, last *atomic.Int64) {
		lock, err := session.locker.Acquire(ctx, key)
		if err == nil {
			if fence := lock.Fence(); last.Swap(fence) >= fence {
				back.Add(1)
			}
			err = lock.Release()
		}
		if err != nil && failed.Add(1) == 1 {
			b.Log.Printf("\tthe first that failed: %v", err)
		}
	}
	before, start := site.Info("used_memory"), time.Now()
	check(shared(b.Keys, func(i int) error {
		if n := i / 128 % len(last); i%64 == 0 {
			take(sessions[i/64%2], fmt.Sprintf("%sorder:%02d", prefix, n), &last[n])
		}
		take(sessions[i%2], fmt.Sprintf("%s%09d", prefix, i), new(atomic.Int64))
		return context.Cause(ctx)
	}))
	took, cycles := time.Since(start), float64(acquires.Load())
	return map[string]float64{
		"cycles":        cycles / took.Seconds(),
		"second rounds": 1000 * float64(rounds.Load()) / cycles,
		"fences back":   float64(back.Load()), "failed": float64(failed.Load()),
		"memory": site.Info("used_memory") - before,
	}
}

// fillFenceSet gives all nodes a set with very many counters.
func fillFenceSet(site Cluster, prefix string, members int) {
	old := time.Now().Add(-time.Hour).UnixMicro()
	for _, p := range site {
		for from := 0; from < members; from += 1000 {
			words := []string{"ZADD", inspect.FenceSet(prefix)}
			for i := from; i < min(from+1000, members); i++ {
				words = append(words, fmt.Sprint(old+int64(i)), fmt.Sprintf("%sidle:%09d", prefix, i))
			}
			must(p.Do(words...))
		}
	}
}
