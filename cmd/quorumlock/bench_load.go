package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	benchTrips   = 200             // round trips to a node that does nothing else for us
	benchConnect = 2 * time.Second // for the first
	benchTooMany = 3               // failures in a row end a goroutine's part
)

// A pacer lets cycles begin one after the other, with a gap between.
type pacer struct {
	gap  time.Duration // 0: none
	mu   sync.Mutex
	next time.Time
}

// wait waits until a cycle may begin. It reports false if that is not before the end.
func (p *pacer) wait(ctx context.Context, end time.Time) bool {
	p.mu.Lock()
	at := time.Now()
	if at.Before(p.next) {
		at = p.next
	}
	ok := at.Before(end)
	if ok {
		p.next = at.Add(p.gap)
	}
	p.mu.Unlock()
	if !ok || p.gap == 0 {
		return ok && ctx.Err() == nil
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// roundTrips asks a node for its keys, and then some times for nearly nothing.
func (b *benching) roundTrips(ctx context.Context, n driver.Node) benchNode {
	ask := func(within time.Duration, word string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		replies, err := n.Driver.Do(ctx, []driver.Command{{Args: []any{word}}})
		if err == nil {
			err = replies[0].Err()
		}
		if err != nil {
			return "", err
		}
		return replies[0].Str, nil
	}
	node := benchNode{Name: n.Name}
	info, err := ask(benchConnect, "INFO")
	if node.Keys = -1; err == nil {
		node.Keys = keysOf(info)
	}
	var took []time.Duration
	begun := time.Now()
	for len(took) < benchTrips && time.Since(begun) < b.long {
		sent := time.Now()
		if _, err := ask(max(b.nodeTimeout(), benchConnect), "TIME"); err != nil {
			node.Error = err.Error()
			return node
		}
		took = append(took, time.Since(sent))
	}
	node.Trips = times(took)
	return node
}

// keysOf counts the keys of all databases of a server; -1: it does not say, or is one of a cluster.
func keysOf(info string) int64 {
	if !strings.Contains(info, "# Keyspace") || strings.Contains(info, "cluster_enabled:1") {
		return -1
	}
	var sum int64
	for line := range strings.Lines(info) {
		if _, fields, ok := strings.Cut(line, ":keys="); ok && strings.HasPrefix(line, "db") {
			count, _, _ := strings.Cut(fields, ",")
			n, err := strconv.ParseInt(count, 10, 64)
			if err != nil {
				return -1
			}
			sum += n
		}
	}
	return sum
}

// measure runs all parts.
func (b *benching) measure(ctx context.Context, lockers []*redlock.Locker) error {
	for _, l := range lockers { // connects, and finds out whether there is a quorum
		if !b.pacer.wait(ctx, time.Now().Add(time.Hour)) {
			return context.Cause(ctx)
		}
		if err := cycle(ctx, l, b.key(0)); err != nil {
			return err
		}
	}
	b.unfit(lockers[0].Check(ctx))
	b.answers.clear()
	for _, goroutines := range []int{1, 16, benchMost} {
		if err := b.load(ctx, benchPart{Goroutines: goroutines, Keys: goroutines, Clients: 1}, lockers[:1]); err != nil {
			return err
		}
	}
	return b.load(ctx, benchPart{Goroutines: len(lockers), Keys: 1, Clients: len(lockers)}, lockers)
}

// unfit notes which nodes answer and have no vote.
func (b *benching) unfit(err error) {
	var failure *redlock.CheckError
	if !errors.As(err, &failure) {
		return
	}
	for _, vote := range failure.Unfit {
		if i := slices.IndexFunc(b.report.Nodes, func(n benchNode) bool { return n.Name == vote.Node && n.Error == "" }); i >= 0 {
			b.report.Nodes[i].Error = vote.Err.Error()
		}
	}
}

// load runs one part. It fails if nothing succeeds.
func (b *benching) load(ctx context.Context, p benchPart, lockers []*redlock.Locker) error {
	var mu sync.Mutex
	var all []time.Duration
	var missed error
	var group sync.WaitGroup
	begun := time.Now()
	for i := range p.Goroutines {
		group.Go(func() {
			took, failed, err := b.cycles(ctx, lockers[i%len(lockers)], b.key(i%p.Keys), begun.Add(b.long))
			mu.Lock()
			defer mu.Unlock()
			all, p.Failed = append(all, took...), p.Failed+failed
			if err != nil {
				missed = err
			}
		})
	}
	group.Wait()
	p.Rate = float64(len(all)) / time.Since(begun).Seconds()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(all) == 0 && missed != nil:
		return missed
	}
	if missed != nil {
		p.Error = missed.Error()
	}
	p.Times = times(all)
	b.report.Parts = append(b.report.Parts, p)
	return nil
}

// cycles goes on until the end, and returns how long each cycle took that succeeded.
func (b *benching) cycles(ctx context.Context, l *redlock.Locker, key string, end time.Time) (took []time.Duration, failed int, last error) {
	for inRow := 0; inRow < benchTooMany && b.pacer.wait(ctx, end); {
		sent := time.Now()
		err := cycle(ctx, l, key)
		switch {
		case ctx.Err() != nil:
			return took, failed, last
		case err != nil:
			last, failed, inRow = err, failed+1, inRow+1
		default:
			took, inRow = append(took, time.Since(sent)), 0
		}
	}
	return took, failed, last
}

// cycle acquires a key and releases it.
func cycle(ctx context.Context, l *redlock.Locker, key string) error {
	lock, err := l.Acquire(ctx, key)
	if err != nil {
		return err
	}
	return lock.Release(context.WithoutCancel(ctx))
}

// benchAnswers are how long the nodes took for batches of requests under load.
type benchAnswers struct {
	mu    sync.Mutex
	took  map[string][]time.Duration
	later map[string]int // had no answer in time
}

func (a *benchAnswers) add(b redlock.Batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.took == nil {
		a.took, a.later = make(map[string][]time.Duration), make(map[string]int)
	}
	a.took[b.Node] = append(a.took[b.Node], b.Latency)
	if b.Err != nil {
		a.later[b.Node]++
	}
}

// clear forgets them: the first have waited for connections.
func (a *benchAnswers) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took, a.later = nil, nil
}

// into adds them to the nodes that answer.
func (a *benchAnswers) into(nodes []benchNode) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range nodes {
		if n := &nodes[i]; n.Error == "" {
			n.Load, n.Unanswered = times(a.took[n.Name]), a.later[n.Name]
		}
	}
}

// times sums up how long things took; nil: nothing was done.
func times(samples []time.Duration) *benchTimes {
	if len(samples) == 0 {
		return nil
	}
	slices.Sort(samples)
	at := func(perMille int) float64 { // the nearest rank
		return samples[max(0, (perMille*len(samples)+999)/1000-1)].Seconds()
	}
	return &benchTimes{Samples: len(samples), P50: at(500), P90: at(900), P99: at(990), P999: at(999), Max: at(1000)}
}
