package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// setKeys is the number of keys, of which each takes leastSet to mostSet for setWork at a time.
const (
	setKeys  = 32
	leastSet = 2
	mostSet  = 8
	setWork  = 2 * time.Millisecond
)

// setCrowd is how many goroutines want some of the keys.
const setCrowd = 64

var sets = Case{
	Name: "sets",
	About: "goroutines that take 2 to 8 random keys of 32, hold them for 2 ms, and release them; in windows of 3 s; as one lock (AcquireAll), " +
		"and one by one in sorted order (Acquire)",
	Columns: []Column{
		{"acquisitions", "sets/s", whole},
		{"wait p50", "wait p50", duration},
		{"wait p99", "p99", duration},
		{"wait max", "max", duration},
		{"jain", "Jain's index", index},
		{"commands", "a node's commands", decimal},
		{"failed", "failed", whole},
	},
	Run: runSets,
}

func runSets(ctx context.Context, b *Bench, t *Table) error {
	some := *b
	some.Contenders = setTakers()
	return some.turns(ctx, t, b.fewerRounds(), []int{1, 8, setCrowd}, func(c Contender, goroutines int) error {
		session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl})
		if err != nil {
			return err
		}
		crowd := startCrowd(ctx, session, crowdKey(), goroutines, setWork)
		window, commands, err := b.watch(ctx)
		members := crowd.Stop()
		b.end(session)
		if err == nil {
			t.Add(Key{Contender: c.Name(), Goroutines: goroutines}, b.accountSets(members, window, commands))
		}
		if err == nil && goroutines >= crowdProcesses {
			each := goroutines / crowdProcesses
			if members, window, commands, err = rally(ctx, b, c, crowdProcesses, each, setWork); err == nil {
				t.Add(Key{c.Name(), crowdProcesses * each, processTitle}, b.accountSets(members, window, commands))
			}
		}
		return errors.Join(err, b.Site.Flush())
	})
}

// accountSets is the account of a crowd whose members may work at the same time.
func (b *Bench) accountSets(members []Member, w Window, commands float64) map[string]float64 {
	values := b.account(members, w, commands)
	delete(values, "changes")
	delete(values, "overlaps")
	return values
}

// setTakers are the two ways to take several keys.
func setTakers() []Contender {
	taker := func(mode string, take func(s *redlockSession, ctx context.Context, keys []string) (Hold, error)) Contender {
		c := find("redlock", "go-redis", "")
		open := c.Open
		c.Mode = mode
		c.Open = func(addrs []string, setup Setup) (Session, error) {
			session, err := open(addrs, setup)
			if err != nil {
				return nil, err
			}
			return setSession{session.(*redlockSession), take}, nil
		}
		return c
	}
	return []Contender{taker("AcquireAll", takeAll), taker("one by one", takeOneByOne)}
}

// A setSession takes a random set where others take the key.
type setSession struct {
	*redlockSession
	take func(s *redlockSession, ctx context.Context, keys []string) (Hold, error)
}

func (s setSession) Wait(ctx context.Context, key string) (Hold, error) {
	var keys []string
	for _, k := range rand.Perm(setKeys)[:leastSet+rand.N(mostSet-leastSet+1)] { //nolint:gosec // no secret
		keys = append(keys, fmt.Sprintf("%s:%02d", key, k))
	}
	return s.take(s.redlockSession, ctx, keys)
}

func takeAll(s *redlockSession, ctx context.Context, keys []string) (Hold, error) { //nolint:revive // as a method has it
	lock, err := s.locker.AcquireAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func takeOneByOne(s *redlockSession, ctx context.Context, keys []string) (Hold, error) { //nolint:revive // as above
	slices.Sort(keys)
	var held holds
	for _, key := range keys {
		lock, err := s.locker.Acquire(ctx, key)
		if err != nil {
			return nil, errors.Join(err, held.Release(context.WithoutCancel(ctx)))
		}
		held = append(held, lock)
	}
	return held, nil
}

// holds are several locks that are released at once.
type holds []*redlock.Lock

func (h holds) Release(ctx context.Context) error {
	failures := make(chan error, len(h))
	for _, lock := range h {
		go func() { failures <- lock.Release(ctx) }()
	}
	var all error
	for range h {
		all = errors.Join(all, <-failures)
	}
	return all
}
