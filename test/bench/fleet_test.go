package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/redlock"
)

// A fleet is processes with locks that are renewed, and with goroutines that each wait for a key which this process
// has.
type fleet struct {
	Processes, Locks, Waiters int // locks and waiters of each process
	Keys                      int // that all processes together wait for
	Number                    int // of the process
	Addrs                     []string

	long time.Duration // how long the benchmark looks
}

const (
	starved    = 10 * time.Second // a node time-out for 200 processes on a few cores
	starting   = 8                // processes at a time: more would starve each other
	renewedTTL = 30 * time.Second
)

func fleetLocker(addrs []string, options ...redlock.Option) *redlock.Locker {
	return newLocker("go-redis", addrs, append(options, redlock.WithNodeTimeout(starved))...)
}

// What waiters and held locks cost while nothing happens, and the time until all waiters have had their locks once
// the locks are released.
func BenchmarkScaleFleet(b *testing.B) {
	s := startSite(b, nodes)
	many, processes, short, period := sized(10_000, 160), sized(200, 4), sized(2*time.Second, 0), sized(20*time.Second, 0)
	for _, f := range []fleet{
		{Processes: 1, Waiters: many, Keys: 1, long: short},
		{Processes: 16, Waiters: many / 16, Keys: 1, long: short},
		{Processes: 1, Waiters: many, Keys: many, long: short},
		{Processes: 16, Waiters: many / 16, Keys: many / 16 * 16, long: short},
		{Processes: processes, Waiters: 1, Keys: processes, Locks: 5, long: short},
		{Processes: 1, Locks: 10 * many, long: period},
	} {
		b.Run(fmt.Sprintf("processes=%d/waiters=%d/keys=%d/locks=%d", f.Processes, f.Processes*f.Waiters, f.Keys, f.Processes*f.Locks), func(b *testing.B) {
			s.empty(b)
			f.measure(b, s)
		})
	}
}

func (f fleet) measure(b *testing.B, s site) {
	f.Addrs = s.addrs()
	holder := fleetLocker(f.Addrs, redlock.WithTTL(5*time.Minute))
	defer func() { _ = holder.Close() }()
	holds, err := takeAll(b.Context(), holder, f.Keys, awaited)
	check(b, err)
	all := f.start(b)
	time.Sleep(sized(5*time.Second, 0)) // until the waiters are at rest
	report := func(order string) (sum account) {
		for _, one := range ask[account](b, all, order) {
			sum.add(one)
		}
		return sum
	}
	before, servers, start := report("look"), s.cpu(), time.Now()
	for b.Loop() {
		time.Sleep(f.long)
	}
	seconds := time.Since(start).Seconds()
	after, load := report("look"), (s.cpu() - servers).Seconds()
	memory := report("weigh").Memory
	b.ReportMetric(0, "ns/op")
	b.ReportMetric((after.CPU-before.CPU).Seconds()/seconds, "client-cores")
	b.ReportMetric(load/seconds, "server-cores")
	b.ReportMetric(memory/float64(f.Processes), "B/process")
	b.ReportMetric(memory/float64(f.Processes*(f.Waiters+f.Locks)), "B/lock") // that somebody has or waits for
	b.ReportMetric((s.info("connected_clients")/nodes)-1, "connections/node") // without the one that asks
	b.ReportMetric(s.info("pubsub_channels")/nodes, "channels/node")
	if f.Locks > 0 {
		b.ReportMetric((after.Renewals-before.Renewals)/seconds, "renewals/s")
		b.ReportMetric(after.Lost, "lost")
	}

	start = time.Now()
	check(b, releaseAll(holds))
	last := report("finish")
	b.ReportMetric(time.Since(start).Seconds(), "done-s")
	if last.Failed > 0 {
		b.ReportMetric(last.Failed, "failed")
	}
}

// start starts the processes, and returns when all have their locks and begin to wait.
func (f fleet) start(b *testing.B) (all []*child) {
	ready := 0
	for f.Number = range f.Processes {
		all = append(all, startChild(b, "service", f))
		for ; len(all)-ready == starting || f.Number == f.Processes-1 && ready < len(all); ready++ {
			answer[bool](b, all[ready])
		}
	}
	return all
}

func awaited(i int) string { return "bench:fleet:" + strconv.Itoa(i) }

// takeAll takes n locks, as many at once as keep the nodes busy.
func takeAll(ctx context.Context, locker *redlock.Locker, n int, key func(i int) string) ([]*redlock.Lock, error) {
	locks := make([]*redlock.Lock, n)
	var group errgroup.Group
	group.SetLimit(128)
	for i := range locks {
		group.Go(func() (err error) {
			locks[i], err = locker.Acquire(ctx, key(i))
			return err
		})
	}
	return locks, group.Wait()
}

func releaseAll(locks []*redlock.Lock) error {
	var group errgroup.Group
	group.SetLimit(128)
	for _, lock := range locks {
		group.Go(lock.Release)
	}
	return group.Wait()
}

// An account is what a process reports of itself.
type account struct {
	CPU                            time.Duration
	Memory, Renewals, Failed, Lost float64 // memory is what the process has more than at its start
}

func (a *account) add(b account) {
	a.CPU += b.CPU
	a.Memory += b.Memory
	a.Renewals += b.Renewals
	a.Failed += b.Failed
	a.Lost += b.Lost
}

// serveService takes its locks and begins to wait, and accounts for itself at each order: at "weigh" with its memory,
// and at "finish" when it has had what it waits for.
func serveService(orders *json.Decoder, answers *json.Encoder) {
	of := next[fleet](orders)
	ctx, cancel := context.WithCancel(context.Background())
	var renewals, failed atomic.Int64
	fail := func(err error) {
		if err != nil && failed.Add(1) == 1 {
			fmt.Fprintln(os.Stderr, "the first that failed:", err)
		}
	}
	before := inUse()
	locker := fleetLocker(of.Addrs, redlock.WithTTL(renewedTTL), redlock.WithHooks(redlock.Hooks{ExtendEnd: func(_ context.Context, e redlock.ExtendEnd) {
		renewals.Add(1)
		fail(e.Err)
	}}))
	locks := must(takeAll(ctx, locker, of.Locks, func(i int) string { return fmt.Sprintf("bench:service:%d:%d", of.Number, i) }))
	var waiters sync.WaitGroup
	for i := range of.Waiters {
		waiters.Go(func() {
			lock, err := locker.Acquire(ctx, awaited((of.Number*of.Waiters+i)%of.Keys))
			if err == nil {
				err = lock.Release()
			}
			fail(err)
		})
	}
	tell(answers, true)
	report := func(order string) {
		a := account{CPU: ownCPU(), Renewals: float64(renewals.Load()), Failed: float64(failed.Load())}
		if order == "weigh" {
			a.Memory = inUse() - before
		}
		for _, lock := range locks {
			if !lock.Valid() {
				a.Lost++
			}
		}
		tell(answers, a)
	}
	order := next[string](orders)
	for ; order != "finish"; order = next[string](orders) {
		report(order)
	}
	late := time.AfterFunc(time.Minute, cancel) // a waiter without a lock by then has failed
	waiters.Wait()
	late.Stop()
	report(order)
	if err := releaseAll(locks); !errors.Is(err, redlock.ErrLost) {
		fail(err)
	}
	fail(locker.Close())
}

// inUse is the memory that heap and stacks take, without garbage. Pools keep things for one collection longer, hence
// two.
func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}
