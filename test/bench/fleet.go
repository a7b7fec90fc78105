package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// A service is what each process of a fleet does. It has locks that are renewed, and goroutines that
// each wait for a key which another process has.
type service struct {
	Title                           string
	Processes, Locks, Waiters, Keys int           // keys are over all processes
	NodeTimeout                     time.Duration // 0 for the library's own
	Contender                       string
	Number                          int // of the process
	Addrs                           []string
}

const (
	starved    = 10 * time.Second // a node time-out for 200 processes on a few cores
	starting   = 8                // of them at a time, or each would starve the others
	renewedTTL = 30 * time.Second // of the locks that are renewed
)

var fleetColumns = []string{"waiter memory", "clients busy", "servers busy", "commands", "done", "failed"}

var fleet = Case{
	Name: "fleet",
	About: "10,000 waiters in few processes, and 200 processes with one each, who wait for what another process has: what it costs while nothing happens, for 2 s (the processor as a part of one core), " +
		"what is at a node, and how long it takes until all have had their locks once these are released",
	Columns: append([]string{"memory", "connections", "channels", "server memory"}, fleetColumns...),
	Apart:   true,
	Run: func(ctx context.Context, b *Bench, t *Table) {
		waiters, processes := b.atMost(10_000), b.atMost(20_000)/100
		turns(ctx, b.with([]Contender{find("redlock", "go-redis", "")}), t, 1, []service{
			{Title: "all for one key, 1 process", Processes: 1, Waiters: waiters, Keys: 1},
			{Title: "all for one key, 16 processes", Processes: 16, Waiters: waiters / 16, Keys: 1},
			{Title: "a key each, 1 process", Processes: 1, Waiters: waiters, Keys: waiters},
			{Title: "a key each, 16 processes", Processes: 16, Waiters: waiters / 16, Keys: waiters / 16 * 16},
			{Title: "a waiter and 5 renewed locks in each process", Processes: processes, Locks: 5, Waiters: 1, Keys: processes},
		}, func(c Contender, s service) {
			t.Add(Key{c.Name(), s.Processes * s.Waiters, s.Title}, b.measureFleet(ctx, c, s))
		})
	},
}

var parked = Case{
	Name: "parked",
	About: "goroutines of one process that each wait for a key of their own, which another process holds: what one takes of heap and stacks, " +
		"what all of them cost in 2 s (the processor as a part of one core), and how long it takes until all have had their locks once the keys are released",
	Columns: fleetColumns,
	Run: func(ctx context.Context, b *Bench, t *Table) {
		turns(ctx, b.with(ours(b.Waiters)), t, b.fewerRounds(), []int{b.atMost(10_000)}, func(c Contender, waiters int) {
			t.Add(Key{Contender: c.Name(), Goroutines: waiters}, b.measureFleet(ctx, c, service{Processes: 1, Waiters: waiters, Keys: waiters}))
		})
	},
}

func awaitedKey(i int) string { return fmt.Sprintf("bench:fleet:%d", i) }

// measureFleet has the keys that are waited for, starts the processes, looks at them while nothing
// happens, and releases the keys.
func (b *Bench) measureFleet(ctx context.Context, c Contender, s service) map[string]float64 {
	s.NodeTimeout = starved
	holder := b.open(c, Setup{TTL: 5 * time.Minute, Options: []redlock.Option{redlock.WithNodeTimeout(starved)}})
	defer b.end(holder)
	holds := make([]Hold, s.Keys)
	check(shared(s.Keys, func(i int) (err error) {
		holds[i], err = holder.Wait(ctx, awaitedKey(i))
		return err
	}))
	fields := map[string]string{"connections": "connected_clients", "channels": "pubsub_channels", "server memory": "used_memory"}
	before := make(map[string]float64)
	for metric, field := range fields {
		before[metric] = b.Site.Info(field)
	}
	var all children
	defer func() { all.close() }()
	b.startFleet(&all, c, s)
	pause(ctx, time.Duration(b.atMost(500))*10*time.Millisecond)
	values := b.watchFleet(ctx, all, 2*time.Second)
	for metric, field := range fields {
		values[metric] = b.Site.Info(field) - before[metric]
	}
	values["memory"] /= float64(s.Processes)
	values["waiter memory"] = values["grown"] / float64(s.Processes*s.Waiters)
	start := time.Now()
	check(shared(s.Keys, func(i int) error { return holds[i].Release() }))
	values["failed"] = all.report("finish")["failed"]
	values["done"] = time.Since(start).Seconds()
	return values
}

// startFleet adds processes to all, and returns what they report when they have their locks and
// begin to wait. Where one fails, those that were started are in all, to be closed.
func (b *Bench) startFleet(all *children, c Contender, s service) (begun map[string]float64) {
	s.Contender, s.Addrs = c.Name(), b.Site.Addrs()
	begun = make(map[string]float64)
	for s.Number = range s.Processes {
		if first := s.Number - starting; first >= 0 {
			add(begun, (*all)[first:first+1].report(""))
		}
		all.start("service", s)
	}
	add(begun, (*all)[max(0, len(*all)-starting):].report(""))
	return begun
}

// watchFleet says what a fleet and the nodes do for a while, and what it is then.
func (b *Bench) watchFleet(ctx context.Context, all children, long time.Duration) map[string]float64 {
	first, servers, start := all.report("look"), b.Site.CPU(), time.Now()
	commands := b.Site.commandsDuring(func() { pause(ctx, long) })
	seconds := time.Since(start).Seconds()
	values := all.report("look")
	values["clients busy"] = (values["cpu"] - first["cpu"]) / seconds
	values["servers busy"] = (b.Site.CPU() - servers) / seconds
	values["commands"] = commands / seconds
	values["renewals"] = (values["renewals"] - first["renewals"]) / seconds
	return values
}

// report lets all obey an order, and adds up what they answer.
func (c children) report(order string) map[string]float64 {
	if order != "" {
		c.order(order)
	}
	sum := make(map[string]float64)
	for _, one := range answers[map[string]float64](c) {
		add(sum, one)
	}
	return sum
}

func add(sum, more map[string]float64) {
	for metric, value := range more {
		sum[metric] += value
	}
}

// A servant is a process of a fleet.
type servant struct {
	holds                      []Hold
	renewals, failed, troubled atomic.Int64
}

func (s *servant) fail(err error) {
	if s.failed.Add(1) == 1 {
		fmt.Fprintln(os.Stderr, "\tthe first that failed:", err)
	}
}

// told counts a renewal.
func (s *servant) told(_ context.Context, renewal redlock.ExtendEnd) {
	s.renewals.Add(1)
	if renewal.Err != nil {
		s.fail(renewal.Err)
	}
	if renewal.Err != nil || renewal.Granted < renewal.Nodes {
		s.troubled.Store(int64(now()))
	}
}

// account is what it reports of itself; troubled is when the last renewal was had that failed or lacked
// a node.
func (s *servant) account(before float64) map[string]float64 {
	lost := 0
	for _, hold := range s.holds {
		if !hold.(*redlock.Lock).Valid() {
			lost++
		}
	}
	_, cpu := usage()
	in := inUse()
	return map[string]float64{
		"cpu": cpu.Seconds(), "memory": in, "grown": in - before, "lost": float64(lost),
		"renewals": float64(s.renewals.Load()), "failed": float64(s.failed.Load()), "troubled": float64(s.troubled.Load()),
	}
}

// serveService has its locks and begins to wait, and says so, tells what it costs as often as it is
// asked, and finishes when it has had what it waits for.
func serveService(spec []byte, orders *bufio.Scanner, answers *json.Encoder) {
	var of service
	check(json.Unmarshal(spec, &of))
	s := &servant{holds: make([]Hold, of.Locks)}
	options := []redlock.Option{redlock.WithHooks(redlock.Hooks{ExtendEnd: s.told}), redlock.WithRenewal()}
	if of.NodeTimeout > 0 {
		options = append(options, redlock.WithNodeTimeout(of.NodeTimeout))
	}
	session := named(of.Contender).Open(of.Addrs, Setup{TTL: renewedTTL, Options: options})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before, start := inUse(), time.Now()
	check(shared(of.Locks, func(i int) (err error) {
		s.holds[i], err = session.Wait(ctx, fmt.Sprintf("bench:service:%d:%d", of.Number, i))
		return err
	}))
	taken := time.Since(start)
	var waiting sync.WaitGroup
	for i := range of.Waiters {
		waiting.Go(func() {
			hold, err := session.Wait(ctx, awaitedKey((of.Number*of.Waiters+i)%of.Keys))
			if err == nil {
				err = hold.Release()
			}
			if err != nil {
				s.fail(err)
			}
		})
	}
	begun := s.account(before)
	begun["taken"] = taken.Seconds()
	check(answers.Encode(begun))
	rest := func() {}
	for orders.Scan() && orders.Text() != "finish" {
		if each, busy := strings.CutPrefix(orders.Text(), "busy "); busy {
			rest()
			rest = spin(must(strconv.Atoi(each)))
		}
		check(answers.Encode(s.account(before)))
	}
	late := time.AfterFunc(time.Minute, cancel) // who has no lock by then has failed
	defer late.Stop()
	waiting.Wait()
	start = time.Now()
	last := s.account(before)
	check(shared(of.Locks, func(i int) error {
		if err := s.holds[i].Release(); !errors.Is(err, redlock.ErrLost) {
			return err
		}
		return nil // which the account says
	}))
	last["released"] = time.Since(start).Seconds()
	check(answers.Encode(last))
	check(session.Close())
}

var renewed = Case{
	Name: "renewed",
	About: "100,000 locks of 30 s in one process that are taken as fast as they can be and renewed from then on: while all is well, with one node stopped, with all of them " +
		"stopped for 5 s, and with goroutines in the process that compute. Processor time is a part of one core; normal is when the last renewal was had that failed or " +
		"that a node lacked, from the moment at which that was over",
	Columns: []string{"taken", "memory", "renewals", "clients busy", "servers busy", "failed", "lost", "normal", "released"},
	Run:     runRenewed,
}

const (
	renewedWell = "all well"
	renewedOne  = "1 node stopped"
	renewedAll  = "all nodes stopped for 5 s"
)

// A trial is a trouble for a while.
type trial struct {
	title string
	Trouble
	long time.Duration
}

func runRenewed(ctx context.Context, b *Bench, t *Table) {
	c, locks, calm, stopped := find("redlock", "go-redis", ""), 100_000, 40*time.Second, 15*time.Second
	if b.Quick {
		locks, calm, stopped = 5_000, 12*time.Second, 2*time.Second
	}
	var all children
	defer func() { all.close() }()
	begun := b.startFleet(&all, c, service{Processes: 1, Locks: locks})
	values := b.watchFleet(ctx, all, calm)
	values["taken"], values["memory"] = begun["taken"], begun["grown"]/float64(locks)
	well, failed := Key{Contender: c.Name(), Situation: renewedWell}, values["failed"]
	t.Add(well, values)
	order := func(n int) func(*Site) error {
		return func(*Site) error { all.report(fmt.Sprint("busy ", n)); return nil }
	}
	for _, trial := range []trial{
		{renewedOne, hung(1), stopped},
		{renewedAll, hung(nodes), 5 * time.Second},
		{busy(2).Name, Trouble{strike: order(2), lift: order(0)}, stopped},
	} {
		b.Log.Printf("%s: %s", t.Name, trial.title)
		check(trial.strike(b.Site))
		pause(ctx, trial.long)
		b.Site.mend(ctx, trial.Trouble)
		again := now()
		values := b.watchFleet(ctx, all, renewedTTL)
		values["failed"], failed = values["failed"]-failed, values["failed"]
		delete(values, "memory") // of the process
		values["normal"] = max(0, moment(values["troubled"]).sub(again)).Seconds()
		t.Add(Key{Contender: c.Name(), Situation: trial.title}, values)
	}
	t.Add(well, map[string]float64{"released": all.report("finish")["released"]})
}
