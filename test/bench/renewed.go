package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

var renewed = Case{
	Name: "renewed",
	About: "100,000 locks of 30 s in one process that are taken as fast as they can be and renewed from then on: while all is well, with one node stopped and with " +
		"all of them stopped for 5 s. Processor time is a part of one core; normal is when the last renewal was had that failed or that a node lacked, from the moment " +
		"at which the nodes went on",
	Columns: []Column{
		{"taken", "taken in", duration},
		{"memory", "a lock's memory", memory},
		{"renewals", "renewals/s", whole},
		{"cpu", "client CPU", percent},
		{"server cpu", "all servers' CPU", percent},
		{"failed", "failed renewals", whole},
		{"lost", "lost", whole},
		{"normal", "normal after", duration},
		{"released", "released in", duration},
	},
	Run: runRenewed,
}

// renewedTTL is the lease of the locks that are renewed.
const renewedTTL = 30 * time.Second

// The situations of the renewed locks.
const (
	renewedWell = "all well"
	renewedOne  = "1 node stopped"
	renewedAll  = "all nodes stopped for 5 s"
)

func runRenewed(ctx context.Context, b *Bench, t *Table) error {
	r := renewing{bench: b, table: t, locks: 100_000, well: 40 * time.Second, stopped: 15 * time.Second}
	switch {
	case b.Quick:
		r.locks, r.well, r.stopped = 5_000, 12*time.Second, 2*time.Second
	case b.Long:
		r.well, r.stopped = 10*time.Minute, time.Minute
	}
	for _, c := range b.Contenders {
		if c.Name() != find("redlock", "go-redis", "").Name() {
			continue
		}
		b.Log.Printf("%s: %d locks for %v: %s", t.Name, r.locks, r.well, c.Name())
		if err := r.run(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// renewing is locks that are renewed.
type renewing struct {
	bench         *Bench
	table         *Table
	locks         int
	well, stopped time.Duration

	holds                   []Hold
	renewals, failed, short atomic.Int64
	troubled                atomic.Int64 // when the last renewal was reported that failed or lacked a node
}

// told counts a renewal.
func (r *renewing) told(renewal redlock.Renewal) {
	r.renewals.Add(1)
	switch {
	case renewal.Err != nil:
		if r.failed.Add(1) == 1 {
			r.bench.Log.Printf("\tthe first that failed: %v", renewal)
		}
	case renewal.Granted < renewal.Nodes:
		r.short.Add(1)
	default:
		return
	}
	r.troubled.Store(int64(now()))
}

func (r *renewing) run(ctx context.Context, c Contender) error {
	b := r.bench
	session, err := c.Open(b.Site.Addrs(), Setup{
		Goroutines: 128, TTL: renewedTTL, Renewed: true,
		Options: []redlock.Option{redlock.OnRenewal(r.told)},
	})
	if err != nil {
		return err
	}
	defer func() { _ = b.Site.Flush() }()
	defer b.end(session)
	before := inUse()
	r.holds = make([]Hold, r.locks)
	start := time.Now()
	shared(r.locks, func(i int) {
		for try := 0; try < 10 && r.holds[i] == nil; try++ { // a busy machine may be late once
			r.holds[i], _ = session.Lock(ctx, fmt.Sprintf("bench:renewed:%08d", i))
		}
	})
	taken := time.Since(start)
	if i := slices.Index(r.holds, nil); i >= 0 {
		return fmt.Errorf("lock %d could not be had", i)
	}
	memory := (float64(inUse()) - float64(before)) / float64(r.locks)
	servers, err := b.Site.CPU()
	if err != nil {
		return err
	}
	well, err := r.watch(ctx, r.well)
	if err != nil {
		return err
	}
	later, err := b.Site.CPU()
	if err != nil {
		return err
	}
	well["taken"], well["memory"], well["server cpu"] = taken.Seconds(), memory, (later-servers).Seconds()/r.well.Seconds()
	r.add(c, renewedWell, well)
	for _, outage := range []struct {
		title string
		nodes int
		long  time.Duration
	}{{renewedOne, 1, r.stopped}, {renewedAll, nodes, 5 * time.Second}} {
		values, err := r.strike(ctx, hung(outage.nodes), outage.long)
		if err != nil {
			return err
		}
		r.add(c, outage.title, values)
	}
	start = time.Now()
	shared(r.locks, func(i int) {
		if err := r.holds[i].Release(ctx); err != nil {
			r.failed.Add(1)
		}
	})
	r.table.Add(Key{Contender: c.Name(), Situation: renewedWell}, map[string]float64{"released": time.Since(start).Seconds()})
	return nil
}

// strike stops some nodes for a time, and watches until all must be normal again.
func (r *renewing) strike(ctx context.Context, f Fault, long time.Duration) (map[string]float64, error) {
	if err := f.strike(r.bench.Site); err != nil {
		return nil, err
	}
	ends := time.AfterFunc(long, func() { _ = f.lift(r.bench.Site) })
	defer ends.Stop()
	again := now() + moment(long)
	values, err := r.watch(ctx, long+renewedTTL)
	if err != nil {
		return nil, err
	}
	values["normal"] = max(0, moment(r.troubled.Load()).sub(again)).Seconds()
	return values, r.bench.Site.mend(ctx, f)
}

// watch counts what happens for a while.
func (r *renewing) watch(ctx context.Context, long time.Duration) (map[string]float64, error) {
	renewals, failed := r.renewals.Load(), r.failed.Load()
	start, cpu := time.Now(), usage().cpu
	if err := pause(ctx, long); err != nil {
		return nil, err
	}
	passed := time.Since(start).Seconds()
	used := (usage().cpu - cpu).Seconds()
	lost := 0
	for _, hold := range r.holds {
		if !hold.(*redlock.Lock).Valid() {
			if lost++; lost == 1 {
				r.bench.Log.Printf("\tthe first that was lost: %v", context.Cause(hold.(*redlock.Lock).Context())) //nolint:contextcheck // nothing is done under it: it has ended
			}
		}
	}
	return map[string]float64{
		"cpu":      used / passed,
		"renewals": float64(r.renewals.Load()-renewals) / passed, "failed": float64(r.failed.Load() - failed), "lost": float64(lost),
	}, nil
}

func (r *renewing) add(c Contender, situation string, values map[string]float64) {
	r.bench.Log.Printf("\t%s: %v", situation, values)
	r.table.Add(Key{Contender: c.Name(), Situation: situation}, values)
}

// renewedFloors are what renewal promises of very many locks.
func renewedFloors() []Floor {
	var all []Floor
	for _, situation := range []string{renewedWell, renewedOne, renewedAll} {
		all = append(all, worst("locks of 100,000 that were lost, "+situation, "renewed", "lost", situation, 0, true, whole))
	}
	all = append(all,
		worst("renewals of 100,000 locks that failed, "+renewedWell, "renewed", "failed", renewedWell, 0, true, whole),
		worst("processor time for 100,000 renewed locks, of one core", "renewed", "cpu", renewedWell, 0.6, true, percent))
	for _, situation := range []string{renewedOne, renewedAll} {
		all = append(all, worst("renewals back to normal, "+situation, "renewed", "normal", situation, 10, true, duration))
	}
	return all
}
