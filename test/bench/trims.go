package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/inspect"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

var trims = Case{
	Name: "trims",
	About: "keys that are taken once each with fences (-keys), by two clients, over go-redis with a TTL of 10 s and over redigo with one of 1 min, each 64 goroutines; the two take 16 keys by turns " +
		"beside these. With one set, nodes have a counter for each of as many keys, a million at the most, an hour old and in one set, and the keys go into that. The last tenth is that of the keys. " +
		"Longest is the bound that the server tells of the longest removal, by powers of two",
	Columns: []Column{
		{"cycles", "cycles/s", whole},
		{"last", "last tenth", percent},
		{"counters", "counters of a node", whole},
		{"memory", "a node's memory", memory},
		{"longest", "longest removal", duration},
		{"rounds", "second rounds", twofold},
		{"back", "fences that went back", whole},
		{"failed", "failed", whole},
	},
	Apart: true,
	Run:   runTrims,
}

const (
	trimsYear    = 365 * 24 * time.Hour
	trimsMembers = 1_000_000
	trimsOrder   = 16 // keys that both clients take
)

// trimming is one run of keys.
type trimming struct {
	bench  *Bench
	site   *Cluster
	prefix string // of the keys that are taken once each

	taken, cycles, failed, rounds, back atomic.Int64
	last                                [trimsOrder]atomic.Int64
}

func runTrims(ctx context.Context, b *Bench, t *Table) error {
	for _, s := range []struct {
		title  string
		prefix string
		clocks []time.Duration
	}{
		{"keys once each", "bench:", nil},
		{"one set", "{bench}:", nil},
		{"clocks a year off", "bench:", []time.Duration{trimsYear, -trimsYear, 0, 0, 0}},
	} {
		site, err := clusterWith(s.clocks) //nolint:contextcheck // Close ends it
		if err != nil {
			return err
		}
		b.Log.Printf("%s: %s", t.Name, s.title)
		r := &trimming{bench: b, site: site, prefix: s.prefix}
		values, err := r.run(ctx)
		if err = errors.Join(err, site.Close()); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		t.Add(Key{Contender: find("redlock", "go-redis", "").Name(), Goroutines: 128, Situation: s.title}, values)
	}
	return nil
}

// clusterWith starts servers whose clocks are off by so much.
func clusterWith(clocks []time.Duration) (*Cluster, error) {
	if clocks == nil {
		return startCluster()
	}
	c := &Cluster{}
	for _, off := range clocks {
		p, err := server.Setup{Clock: true}.Launch()
		if err == nil {
			c.processes = append(c.processes, p)
		}
		if err == nil && off != 0 {
			err = p.StepClock(off)
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

func (r *trimming) run(ctx context.Context) (map[string]float64, error) {
	if strings.HasPrefix(r.prefix, "{") {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	before, err := r.memory()
	if err != nil {
		return nil, err
	}
	var sessions []Session
	for _, c := range []struct {
		Contender
		ttl time.Duration
	}{{find("redlock", "go-redis", ""), ttl}, {find("redlock", "redigo", ""), time.Minute}} {
		session, err := c.Open(r.site.Addrs(), Setup{Goroutines: 64, TTL: c.ttl, Options: []redlock.Option{redlock.WithFences(), countRounds(new(atomic.Int64), &r.rounds)}})
		if err != nil {
			return nil, err
		}
		defer r.bench.end(session)
		sessions = append(sessions, session)
	}
	start := time.Now()
	var lastTenth atomic.Int64
	shared(128, func(i int) { r.take(ctx, sessions[i%2], &lastTenth) })
	done := time.Now()
	values := map[string]float64{
		"cycles": float64(r.cycles.Load()) / done.Sub(start).Seconds(),
		"rounds": 1000 * float64(r.rounds.Load()) / float64(max(1, r.cycles.Load())),
		"back":   float64(r.back.Load()), "failed": float64(r.failed.Load()),
	}
	values["last"] = float64(r.cycles.Load()) / 10 / done.Sub(time.Unix(0, lastTenth.Load())).Seconds() / values["cycles"]
	after, err := r.memory()
	if err != nil {
		return nil, err
	}
	values["memory"] = after - before
	if values["counters"], err = r.counters(); err != nil {
		return nil, err
	}
	values["longest"], err = r.longest()
	return values, err
}

// take takes keys until all have been taken.
func (r *trimming) take(ctx context.Context, session Session, lastTenth *atomic.Int64) {
	for ctx.Err() == nil {
		n := r.taken.Add(1)
		if n > int64(r.bench.Keys) {
			return
		}
		if n == int64(r.bench.Keys)*9/10 {
			lastTenth.Store(time.Now().UnixNano())
		}
		if n%64 == 0 {
			r.order(ctx, session, int(n/64)%trimsOrder)
		}
		hold, err := session.Lock(ctx, fmt.Sprintf("%s%09d", r.prefix, n))
		if err == nil {
			err = hold.Release(ctx)
		}
		r.note(err)
	}
}

// order takes a key that both clients take, and looks whether its fence is above the last.
func (r *trimming) order(ctx context.Context, session Session, key int) {
	lock, err := session.(*redlockSession).locker.Acquire(ctx, fmt.Sprintf("%sorder:%02d", r.prefix, key))
	if err == nil {
		if fence := lock.Fence(); r.last[key].Swap(fence) >= fence {
			r.back.Add(1)
		}
		err = lock.Release(ctx)
	}
	r.note(err)
}

func (r *trimming) note(err error) {
	if r.cycles.Add(1); err != nil && r.failed.Add(1) == 1 {
		r.bench.Log.Printf("\tthe first that failed: %v", err)
	}
}

// fill gives all nodes a set with very many counters.
func (r *trimming) fill() error {
	set, old := inspect.FenceSet(r.prefix), time.Now().Add(-time.Hour).UnixMicro()
	members := min(r.bench.Keys, trimsMembers)
	return r.site.each(func(conn redigo.Conn) error {
		for from := 0; from < members; from += 1000 {
			args := redigo.Args{set}
			for i := from; i < min(from+1000, members); i++ {
				args = args.Add(old+int64(i), fmt.Sprintf("%sidle:%09d", r.prefix, i))
			}
			if _, err := conn.Do("ZADD", args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// memory is that of a node, on average.
func (r *trimming) memory() (sum float64, err error) {
	err = r.site.each(func(conn redigo.Conn) error {
		info, err := redigo.String(conn.Do("INFO", "memory"))
		used, e := strconv.ParseFloat(infoField(info, "used_memory"), 64)
		sum += used / nodes
		return errors.Join(err, e)
	})
	return sum, err
}

// counters is how many of them the first node has.
func (r *trimming) counters() (float64, error) {
	const script = `local sum, cursor = 0, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', 'ql:fences:*', 'COUNT', 1000)
  for _, set in ipairs(page[2]) do sum = sum + redis.call('ZCARD', set) end
  cursor = page[1]
until cursor == '0'
return sum`
	conn, err := dial(r.site.Addrs()[0])
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	sum, err := redigo.Int64(conn.Do("EVAL", script, 0))
	return float64(sum), err
}

// longest bounds the longest removal of any node: a bucket of its histogram.
func (r *trimming) longest() (longest float64, err error) {
	err = r.site.each(func(conn redigo.Conn) error {
		text, err := redigo.Values(conn.Do("LATENCY", "HISTOGRAM", "zremrangebyscore"))
		if err != nil || len(text) < 2 {
			return err
		}
		fields, err := redigo.Values(text[1], nil)
		if err != nil || len(fields) < 4 {
			return err
		}
		buckets, err := redigo.Int64s(fields[3], nil)
		for i := 0; i < len(buckets); i += 2 {
			longest = max(longest, float64(buckets[i])/1e6)
		}
		return err
	})
	return longest, err
}
