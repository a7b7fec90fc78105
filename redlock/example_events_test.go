package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// A lock is taken over what is left of the nodes. Somebody should know all the same.
func ExampleHooks_nodes() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	alarms := make(chan redlock.Event, 16)
	locker, err := redlock.New(nodes, redlock.WithHooks(redlock.Hooks{Node: func(e redlock.Event) {
		if e.Kind != redlock.NodeUp {
			alarms <- e
		}
	}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	crash(nodes[2])

	_, err = locker.Acquire(context.Background(), "orders:42")
	fmt.Println(err)
	fmt.Println(<-alarms)
	// Output:
	// <nil>
	// node down: 10.0.0.3:6379: dial tcp 10.0.0.3:6379: connect: connection refused: nothing was sent
}

// A node that evicts keys does not vote, unless one can live with lost locks.
func ExampleWithEvictingNodes() {
	ctx := context.Background()
	nodes := open(1) // goredis.Open("redis://10.0.0.1")
	limitMemory(nodes[0], "allkeys-lru")

	strict := newLocker(nodes)
	defer strict.Close()
	_, err := strict.TryAcquire(ctx, "orders:42")
	fmt.Println("refused:", err != nil)

	events := make(chan redlock.Event, 16)
	lenient, err := redlock.New(nodes, redlock.WithEvictingNodes(), redlock.WithHooks(redlock.Hooks{Node: func(e redlock.Event) { events <- e }}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lenient.Close()
	_, err = lenient.Acquire(ctx, "orders:42")
	fmt.Println(err)
	fmt.Println((<-events).Kind)
	// Output:
	// refused: true
	// <nil>
	// node evicts
}

func ExampleEvent() {
	fmt.Println(redlock.Event{Kind: redlock.NodeUp, Node: "10.0.0.1:6379"})
	// Output: node up: 10.0.0.1:6379
}

// Hooks are told of each acquire and of each hold. Here they measure how long locks are waited for
// and held; package otelredlock has them all, as metrics and spans.
func ExampleWithHooks() {
	type began struct{}
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker, err := redlock.New(nodes, redlock.WithHooks(redlock.Hooks{
		AcquireStart: func(ctx context.Context, a redlock.AcquireStart) context.Context {
			return context.WithValue(ctx, began{}, a.Key) // a span, say: the other functions get it back
		},
		AcquireEnd: func(ctx context.Context, a redlock.AcquireEnd) {
			fmt.Println(ctx.Value(began{}), a.Kind, a.Path, a.Waited < time.Minute, a.Tries, errors.Is(a.Err, redlock.ErrTaken))
		},
		HoldEnd: func(ctx context.Context, h redlock.HoldEnd) {
			fmt.Println(ctx.Value(began{}), h.Reason, h.Lasted < time.Minute)
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	lock, err := locker.Acquire(context.Background(), "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = locker.TryAcquire(context.Background(), "orders:42")
	_ = lock.Release()
	// Output:
	// orders:42 exclusive direct true 1 false
	// orders:42 exclusive direct true 1 true
	// orders:42 released true
}

// A page of gauges for Prometheus, without a library for metrics.
func ExampleLocker_Stats() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker := newLocker(nodes)
	defer locker.Close()

	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		stats := locker.Stats()
		for name, value := range map[string]int{"locks": stats.Locks, "waiters": stats.Waiting, "cleanups": stats.Owed} {
			fmt.Fprintf(w, "# TYPE redlock_%[1]s gauge\nredlock_%[1]s %[2]d\n", name, value)
		}
		fmt.Fprintln(w, "# TYPE redlock_node_up gauge")
		for _, node := range stats.Nodes {
			up := 0
			if node.State == "up" {
				up = 1
			}
			fmt.Fprintf(w, "redlock_node_up{node=%q} %d\n", node.Name, up)
		}
	}) // for http.Handle("/metrics", page)

	crash(nodes[2])
	if err := locker.Do(context.Background(), "orders:42", func(context.Context) error {
		scrape(page, "redlock_locks", "redlock_node_up")
		return nil
	}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// redlock_locks 1
	// redlock_node_up{node="10.0.0.1:6379"} 1
	// redlock_node_up{node="10.0.0.2:6379"} 1
	// redlock_node_up{node="10.0.0.3:6379"} 0
}

// scrape reads a page as Prometheus does, and shows what has these names.
func scrape(page http.Handler, names ...string) {
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		for _, name := range names {
			if strings.HasPrefix(line, name) {
				fmt.Print(line)
			}
		}
	}
}

// What an operator should know goes to the program's log: locks that were lost, renewals that are
// short of votes, and news of nodes.
func ExampleLogTo() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // which is another at each run
		}
		return a
	}}))
	locker, err := redlock.New(nodes, redlock.WithHooks(redlock.LogTo(log)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	crash(nodes[2])
	_ = locker.Check(context.Background())
	// Output: level=WARN msg="node down" event.kind="node down" event.node=10.0.0.3:6379 event.error.summary="dial tcp 10.0.0.3:6379: connect: connection refused: nothing was sent"
}
