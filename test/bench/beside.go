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

const (
	besideWork    = 50 * time.Millisecond // how long everybody holds what it has
	besideOthers  = 8
	besidePermits = 4
	besideAtOnce  = 6 // pairs
)

var beside = Case{
	Name: "beside",
	About: "one that waits again and again, in a process of its own, beside others that do so, too, with holds of 50 ms and leases of 1 s; in windows of 6 s. " +
		"Six pairs are measured at a time, each on keys of its own. All is well, or a node hangs",
	Columns: []string{"waits", "wait p50", "wait p99", "wait max", "grants", "most grants", "others p50", "others p99", "others max", "failed"},
	Run:     runBeside,
}

// The ways to wait that are measured beside each other.
const (
	asPlain  = "Acquire"
	asFair   = "WithFairness"
	asReader = "AcquireShared"
	asSet    = "AcquireAll of a and b"
	asPart   = "AcquireAll of two of a, b, c"
	asNested = "Acquire of b, then of a under b"
	asSilent = "Acquire of b, then of a under b without its context"
	asOne    = "one of 4 permits"
	asAll    = "all of 4 permits"
	asSome   = "1 to 4 of 4 permits"
	asPeer   = "redsync"
)

func besides() (all []Contender) {
	add := func(mode string, take take, options ...redlock.Option) {
		all = append(all, variant(find("redlock", "go-redis", ""), mode, take, append(options, redlock.WithRenewal())...))
	}
	add(asPlain, takeOne)
	add(asFair, takeOne, redlock.WithFairness())
	add(asReader, func(ctx context.Context, locker *redlock.Locker, key string) (Hold, error) {
		return held(locker.AcquireShared(ctx, key))
	})
	add(asSet, func(ctx context.Context, locker *redlock.Locker, key string) (Hold, error) {
		return held(locker.AcquireAll(ctx, []string{key, keyB(key)}))
	})
	add(asPart, func(ctx context.Context, locker *redlock.Locker, key string) (Hold, error) {
		keys := []string{key, keyB(key), key + ":c"}
		i := rand.N(len(keys)) //nolint:gosec // no secret
		return held(locker.AcquireAll(ctx, slices.Delete(keys, i, i+1)))
	})
	add(asNested, nested(false))
	add(asSilent, nested(true))
	add(asOne, takePermits(besidePermits, 1, 1))
	add(asSome, takePermits(besidePermits, 1, besidePermits))
	add(asAll, takePermits(besidePermits, besidePermits, besidePermits))
	return all
}

func keyB(key string) string { return key + ":b" }

// nested takes b first, for a time, and then the key, by the lock's context, or silently without it.
func nested(silently bool) take {
	return func(ctx context.Context, locker *redlock.Locker, key string) (Hold, error) { //nolint:contextcheck // the lock's descends from ctx
		outer, err := locker.Acquire(ctx, keyB(key))
		if err != nil {
			return nil, err
		}
		time.Sleep(besideWork)
		if !silently {
			ctx = outer.Context()
		}
		inner, err := locker.Acquire(ctx, key)
		if err != nil {
			return nil, errors.Join(err, outer.Release())
		}
		return holds{inner, outer}, nil
	}
}

// A pair is one that waits, and those that it is beside.
type pair struct {
	who, whom         string
	others, processes int
}

func (p pair) String() string {
	return fmt.Sprintf("beside %d in %d processes: %s", p.others, p.processes, p.whom)
}

func pairs() (all []pair) {
	for _, whom := range []string{asPlain, asFair, asReader, asPart, asNested, asSilent, asPeer} {
		for _, who := range []string{asPlain, asFair, asReader, asSet} {
			p := pair{who, whom, besideOthers, crowdProcesses}
			if whom == asFair {
				p.processes = 1 // a busy one
			}
			all = append(all, p)
		}
	}
	for _, whom := range []string{asOne, asSome} {
		all = append(all, pair{asOne, whom, besideOthers, crowdProcesses}, pair{asAll, whom, besideOthers, crowdProcesses})
	}
	return append(all, pair{asSet, asSilent, 2, 2}, pair{asSet, asSilent, 4, crowdProcesses})
}

func runBeside(ctx context.Context, b *Bench, t *Table) {
	long := b.with(besides()[:1])
	long.Crowd *= 2
	for _, trouble := range []Trouble{well, hung(1)} {
		groups := slices.Collect(slices.Chunk(pairs()[:max(1, b.atMost(len(pairs())))], besideAtOnce))
		turns(ctx, long, t, 1, groups, func(_ Contender, group []pair) { long.measurePairs(ctx, t, group, trouble) })
	}
}

// measurePairs measures pairs at the same time.
func (b *Bench) measurePairs(ctx context.Context, t *Table, group []pair, trouble Trouble) {
	var parties []party
	for _, p := range group {
		who, whom, key := Contender{Library: "redlock", Client: "go-redis", Mode: p.who}, find("redsync", "go-redis", ""), crowdKey()
		if p.whom != asPeer {
			whom = who
			whom.Mode = p.whom
		}
		parties = append(parties,
			party{Contender: who.Name(), Key: key, Processes: 1, Callers: 1, Work: besideWork, TTL: time.Second},
			party{Contender: whom.Name(), Key: key, Processes: p.processes, Callers: p.others / p.processes, Work: besideWork, TTL: time.Second})
	}
	all, w, _ := b.meet(ctx, parties, trouble)
	for i, p := range group {
		t.Add(Key{Contender: parties[2*i].Contender, Situation: join(p.String(), trouble.Name)}, accountPair(all[0][0], slices.Concat(all[1:1+p.processes]...), w))
		all = all[1+p.processes:]
	}
}

// accountPair says how one fared beside the others.
func accountPair(who Member, others []Member, w Window) map[string]float64 {
	values, theirs := tally([]Member{who}, w), tally(others, w)
	values["waits"] = values["acquisitions"] * w.seconds()
	values["others p50"], values["others p99"], values["others max"] = theirs["wait p50"], theirs["wait p99"], theirs["wait max"]
	values["failed"] += theirs["failed"]
	var got []moment // by others
	for _, other := range others {
		for _, turn := range other.Turns {
			got = append(got, turn.Got)
		}
	}
	slices.Sort(got)
	var grants []float64
	for _, turn := range who.Turns {
		if turn.Got == 0 {
			turn.Got = w.to
		}
		if turn.Got >= w.from && turn.Asked < w.to {
			from, _ := slices.BinarySearch(got, turn.Asked)
			to, _ := slices.BinarySearch(got, turn.Got)
			grants = append(grants, float64(to-from))
		}
	}
	values["grants"] = median(grants)
	if len(grants) > 0 {
		values["most grants"] = slices.Max(grants)
	}
	return values
}
