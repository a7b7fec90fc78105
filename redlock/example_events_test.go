package redlock_test

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/redlock"
)

// A lock is taken over what is left of the nodes. Somebody should know all the same.
func ExampleOnEvent() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	alarms := make(chan redlock.Event, 16)
	locker, err := redlock.New(nodes, redlock.OnEvent(func(e redlock.Event) {
		if e.Kind != redlock.NodeUp {
			alarms <- e
		}
	}))
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
	_, err := strict.Acquire(ctx, "orders:42")
	fmt.Println("refused:", err != nil)

	events := make(chan redlock.Event, 16)
	lenient, err := redlock.New(nodes, redlock.WithEvictingNodes(), redlock.OnEvent(func(e redlock.Event) { events <- e }))
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
