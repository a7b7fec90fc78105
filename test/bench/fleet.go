package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/redlock"
)

var fleet = Case{
	Name: "fleet",
	About: "many processes, and many who wait for what another process has: what it costs while nothing happens, for 2 s (the processor as a part of one core), " +
		"what is at a node, and how long it takes until all have had their locks once these are released; and 200 services with a few renewed locks each",
	Columns: []Column{
		{"memory", "a process's memory", memory},
		{"waiter", "a waiter's memory", memory},
		{"cpu", "all clients' CPU", percent},
		{"server cpu", "all servers' CPU", percent},
		{"commands", "a node's commands/s", whole},
		{"connections", "its connections", whole},
		{"channels", "its channels", whole},
		{"server memory", "its memory more", memory},
		{"done", "all done in", duration},
		{"failed", "failed", whole},
	},
	Apart: true,
	Run:   runFleet,
}

// A service is what each process of a fleet does.
type service struct {
	processes, locks, waiters int
	keys                      int // that are waited for, over all processes
}

func (s service) title() string {
	what := fmt.Sprintf("%d processes", s.processes)
	if s.processes == 1 {
		what = "1 process"
	}
	if s.locks > 0 {
		what += fmt.Sprintf(" of %d renewed locks", s.locks)
	}
	keys := fmt.Sprintf("%d keys", s.keys)
	if s.keys == 1 {
		keys = "one key"
	}
	return fmt.Sprintf("%s, %d waiters in all for %s", what, s.processes*s.waiters, keys)
}

func runFleet(ctx context.Context, b *Bench, t *Table) error {
	waiters, processes := b.atMost(10_000), b.atMost(3_200)
	for _, s := range []service{
		{1, 0, waiters, 1},
		{16, 0, waiters / 16, 1},
		{1, 0, waiters, waiters},
		{16, 0, waiters / 16, waiters / 16 * 16},
		{processes / 16, 5, 1, processes / 16},
	} {
		b.Log.Printf("%s: %s", t.Name, s.title())
		values, err := b.measureFleet(ctx, s)
		if err := errors.Join(err, b.Site.Flush()); err != nil {
			return fmt.Errorf("%s: %w", s.title(), err)
		}
		t.Add(Key{Contender: find("redlock", "go-redis", "").Name(), Situation: s.title()}, values)
	}
	return nil
}

// starved is a node time-out for 200 processes on a few cores.
const starved = 10 * time.Second

func awaitedKey(i int) string { return fmt.Sprintf("bench:fleet:%d", i) }

// measureFleet has the keys that are waited for, starts the processes, looks at them while nothing
// happens, and releases the keys.
func (b *Bench) measureFleet(ctx context.Context, s service) (values map[string]float64, err error) {
	over := find("redlock", "go-redis", "")
	holder, err := over.Open(b.Site.Addrs(), Setup{Goroutines: 128, TTL: 5 * time.Minute, Options: []redlock.Option{redlock.WithNodeTimeout(starved)}})
	if err != nil {
		return nil, err
	}
	defer b.end(holder)
	holds, errs := make([]Hold, s.keys), make([]error, s.keys)
	shared(s.keys, func(i int) { holds[i], errs[i] = holder.Wait(ctx, awaitedKey(i)) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	before, err := b.Site.inUse()
	if err != nil {
		return nil, err
	}
	var all children
	defer func() { err = errors.Join(err, all.close()) }()
	for i := range s.processes {
		child, err := startChild(append([]string{serviceCommand, strconv.Itoa(i), strconv.Itoa(s.locks), strconv.Itoa(s.waiters), strconv.Itoa(s.keys)}, b.Site.Addrs()...)...)
		if err != nil {
			return nil, err
		}
		all = append(all, child)
	}
	if _, err := all.report(""); err != nil { // they have begun
		return nil, err
	}
	settle := 5 * time.Second
	if b.Quick {
		settle = 500 * time.Millisecond
	}
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	first, err := all.report("look")
	if err != nil {
		return nil, err
	}
	servers, err := b.Site.CPU()
	if err != nil {
		return nil, err
	}
	const long = 2 * time.Second
	commands, err := b.Site.commandsDuring(func() error { return pause(ctx, long) })
	if err != nil {
		return nil, err
	}
	after, err := b.Site.CPU()
	if err != nil {
		return nil, err
	}
	second, err := all.report("look")
	if err != nil {
		return nil, err
	}
	now, err := b.Site.inUse()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	shared(s.keys, func(i int) { errs[i] = holds[i].Release(ctx) })
	last, err := all.report("finish")
	values = map[string]float64{
		"memory":        float64(second.Memory) / float64(s.processes),
		"waiter":        float64(second.Grown) / float64(s.processes*s.waiters),
		"cpu":           (second.CPU - first.CPU).Seconds() / long.Seconds(),
		"server cpu":    (after - servers).Seconds() / long.Seconds(),
		"commands":      commands / long.Seconds(),
		"connections":   now["connected_clients"] - before["connected_clients"],
		"channels":      now["pubsub_channels"] - before["pubsub_channels"],
		"server memory": now["used_memory"] - before["used_memory"],
		"done":          time.Since(start).Seconds(),
		"failed":        float64(last.Failed),
	}
	if last.Err != "" {
		b.Log.Printf("\t%d failed, one of the first: %s", last.Failed, last.Err)
	}
	return values, errors.Join(append(errs, err)...)
}

// inUse is what a node says of itself, on average.
func (c *Cluster) inUse() (map[string]float64, error) {
	values := make(map[string]float64)
	err := c.each(func(conn redigo.Conn) error {
		info, err := redigo.String(conn.Do("INFO"))
		for _, field := range []string{"connected_clients", "pubsub_channels", "used_memory"} {
			n, e := strconv.ParseFloat(infoField(info, field), 64)
			err = errors.Join(err, e)
			values[field] += n / float64(len(c.processes))
		}
		return err
	})
	return values, err
}

// An account is what a process of a fleet reports of itself.
type account struct {
	CPU           time.Duration
	Memory, Grown uint64 // heap and stacks, and how much more it is than before the first lock
	Failed        int
	Err           string
}

// report lets all obey an order, and adds up what they answer.
func (c children) report(order string) (sum account, err error) {
	if order != "" {
		if err := c.order(order); err != nil {
			return sum, err
		}
	}
	for _, child := range c {
		line, err := child.answer()
		if err != nil {
			return sum, err
		}
		var one account
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return sum, err
		}
		sum.CPU, sum.Memory, sum.Grown, sum.Failed = sum.CPU+one.CPU, sum.Memory+one.Memory, sum.Grown+one.Grown, sum.Failed+one.Failed
		if sum.Err == "" {
			sum.Err = one.Err
		}
	}
	return sum, nil
}

// serviceCommand is the first argument of a run of this program that is one of a fleet. The others are
// its number, how many renewed locks it has, how many wait in it, for how many keys all of
// them do, and where the nodes are.
const serviceCommand = "service"

// serveService is the process: it has its locks and begins to wait, and says so, tells what it
// costs as often as it is asked, and finishes when it has had what it waits for.
func serveService(args []string, orders io.Reader, answers io.Writer) error {
	goredis.SetLogger(quiet{})
	var numbers [4]int
	for i := range numbers {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	number, locks, waiters, keys := numbers[0], numbers[1], numbers[2], numbers[3]
	session, err := find("redlock", "go-redis", "").Open(args[4:], Setup{
		Goroutines: max(1, min(waiters, 128)), TTL: renewedTTL, Renewed: true, Options: []redlock.Option{redlock.WithNodeTimeout(starved)},
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	before := inUse()
	holds, errs := make([]Hold, locks), make([]error, locks)
	shared(locks, func(i int) { holds[i], errs[i] = session.Wait(ctx, fmt.Sprintf("bench:service:%d:%d", number, i)) })
	q := startQueue(ctx, session, waiters, func(i int) string { return awaitedKey((number*waiters + i) % keys) })
	out, scanner := json.NewEncoder(answers), bufio.NewScanner(orders)
	tell := func() error {
		in := inUse()
		return out.Encode(account{CPU: usage().cpu, Memory: in, Grown: in - min(in, before)})
	}
	err = errors.Join(errors.Join(errs...), tell())
	for err == nil && scanner.Scan() && strings.TrimSpace(scanner.Text()) == "look" {
		err = tell()
	}
	late := time.AfterFunc(time.Minute, q.cancel) // who has no lock by then has failed
	q.joined.Wait()
	late.Stop()
	failed, failure := q.stop()
	last := account{Failed: failed}
	if failure != nil {
		last.Err = failure.Error()
	}
	err = errors.Join(err, out.Encode(last))
	var release sync.Mutex
	shared(len(holds), func(i int) {
		if holds[i] == nil {
			return
		}
		e := holds[i].Release(ctx)
		release.Lock()
		defer release.Unlock()
		err = errors.Join(err, e)
	})
	return errors.Join(err, session.Close())
}
