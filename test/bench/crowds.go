package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/quorumlock/quorumlock/redlock"
)

const (
	crowded        = 64 // callers want one key
	crowdProcesses = 4
	processTitle   = "4 processes"
	shortWork      = time.Millisecond
)

func waiters(b *Bench) []Contender { return b.Waiters }

var contended = crowdCase(Case{
	Name: "contended",
	About: "goroutines that all want one key, and hold it for 1 ms each, in one process and in four; in windows of 3 s; " +
		"a node's commands are those for one acquisition, with what scripts do and all tries",
	Columns: crowdColumns,
}, shortWork, waiters, crowd{crowded, 1, well}, crowd{crowded, crowdProcesses, well})

var fair = crowdCase(Case{
	Name: "fair",
	About: "64 goroutines that all want one key, and hold it for 1 ms each, in 1, 4, 16 and 64 processes; in windows of 3 s; " +
		"with today's order, which is that of chance between processes, and in turn (WithFairness)",
	Columns: crowdColumns,
}, shortWork, func(*Bench) []Contender {
	return []Contender{find("redlock", "go-redis", ""), inTurn(), find("redsync", "go-redis", polling)}
},
	crowd{crowded, 1, well}, crowd{crowded, 4, well}, crowd{crowded, 16, well},
	crowd{crowded, 16, hung(1)}, crowd{crowded, 64, well})

// inTurn is our library where waiters of all processes take turns.
func inTurn() Contender {
	return variant(find("redlock", "go-redis", ""), "fair", takeOne, redlock.WithFairness())
}

// without is metrics but for some.
func without(metrics []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(metrics), func(metric string) bool { return slices.Contains(some, metric) })
}

var sets = crowdCase(Case{
	Name: "sets",
	About: "goroutines that take 2 to 8 random keys of 32, hold them for 2 ms, and release them, in one process and in four; in windows of 3 s; as one lock (AcquireAll), " +
		"and one by one in sorted order (Acquire)",
	Columns: without(crowdColumns, "changes", "most"),
}, 2*time.Millisecond, func(*Bench) []Contender { return setTakers() },
	crowd{1, 1, well}, crowd{8, 1, well}, crowd{8, crowdProcesses, well},
	crowd{crowded, 1, well}, crowd{crowded, crowdProcesses, well})

// setTakers are the two ways to take several keys.
func setTakers() []Contender {
	ours := find("redlock", "go-redis", "")
	return []Contender{
		variant(ours, "AcquireAll", func(ctx context.Context, locker *redlock.Locker, key string) (Hold, error) {
			return held(locker.AcquireAll(ctx, randomSet(key)))
		}),
		variant(ours, "one by one", takeOneByOne),
	}
}

// randomSet is 2 to 8 keys of 32, where others take the key.
func randomSet(key string) []string {
	var keys []string
	for _, k := range rand.Perm(32)[:2+rand.N(7)] { //nolint:gosec // no secret
		keys = append(keys, fmt.Sprintf("%s:%02d", key, k))
	}
	return keys
}

func takeOneByOne(ctx context.Context, locker *redlock.Locker, key string) (Hold, error) {
	keys := randomSet(key)
	slices.Sort(keys)
	var all holds
	for _, key := range keys {
		lock, err := locker.Acquire(ctx, key)
		if err != nil {
			return nil, errors.Join(err, all.Release())
		}
		all = append(all, lock)
	}
	return all, nil
}

// holds are several locks that are released at once.
type holds []Hold

func (h holds) Release() error { return shared(len(h), func(i int) error { return h[i].Release() }) }

const permitCount = 10

var permits = crowdCase(Case{
	Name: "permits",
	About: "goroutines that all want one of 10 permits, or 1 to 5 at once, and hold them for 20 ms each, in one process and in four; in windows of 3 s; beside " +
		"golang.org/x/sync/semaphore, which is in one process alone; in use are holders, whatever each holds",
	Columns: append([]string{"in use"}, without(crowdColumns, "changes")...),
}, 20*time.Millisecond, func(*Bench) []Contender { return permitters() },
	crowd{8, 1, well}, crowd{8, crowdProcesses, well}, crowd{100, 1, well}, crowd{100, crowdProcesses, well})

// permitters are those who give permits, where others lock.
func permitters() []Contender {
	ours := find("redlock", "go-redis", "")
	return []Contender{
		variant(ours, "semaphore", takePermits(permitCount, 1, 1)), variant(ours, "1 to 5 at once", takePermits(permitCount, 1, 5)),
		{Library: "x/sync/semaphore", Open: func([]string, Setup) Session { return localSession{semaphore.NewWeighted(permitCount)} }},
	}
}

// takePermits takes least to most of our permits at once.
func takePermits(permits, least, most int) take {
	return func(ctx context.Context, locker *redlock.Locker, key string) (Hold, error) {
		of, err := locker.Semaphore(key, permits)
		if err != nil {
			return nil, err
		}
		if n := least + rand.N(most-least+1); n > 1 { //nolint:gosec // no secret
			return held(of.AcquireN(ctx, n))
		}
		return held(of.Acquire(ctx))
	}
}

// A localSession is that of one process, and its one kind of hold.
type localSession struct{ *semaphore.Weighted }

func (s localSession) Lock(ctx context.Context, key string) (Hold, error) { return s.Wait(ctx, key) }

func (s localSession) Wait(ctx context.Context, _ string) (Hold, error) { return s, s.Acquire(ctx, 1) }

func (s localSession) Release() error {
	s.Weighted.Release(1)
	return nil
}

func (localSession) Close() error { return nil }
