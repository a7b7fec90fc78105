package redlock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// A Locker has a TTL for all its locks, and each lock may have another.
func ExampleWithTTL() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker, err := redlock.New(nodes, redlock.WithTTL(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	usual, err := locker.Acquire(ctx, "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	long, err := locker.Acquire(ctx, "reports:2026", redlock.WithTTL(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(usual.Until().Before(time.Now().Add(time.Minute)))
	fmt.Println(long.Until().After(time.Now().Add(50 * time.Minute)))
	// Output:
	// true
	// true
}

// A request that is repeated, by a process that crashed or did not hear the answer,
// finds the lock that it has.
func ExampleWithToken() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	token := rand.Text() // made once, and stored with the request

	_, err := locker.TryAcquire(ctx, "orders:42", redlock.WithToken(token))
	fmt.Println("first:", err)
	lock, err := locker.TryAcquire(ctx, "orders:42", redlock.WithToken(token))
	fmt.Println("again:", err)
	_, err = locker.TryAcquire(ctx, "orders:42", redlock.WithToken(rand.Text()))
	fmt.Println("another is refused:", errors.Is(err, redlock.ErrTaken))

	fmt.Println("release:", lock.Release())
	_, err = locker.TryAcquire(ctx, "orders:42", redlock.WithToken(token))
	fmt.Println("a late repetition is refused:", errors.Is(err, redlock.ErrReleased))
	// Output:
	// first: <nil>
	// again: <nil>
	// another is refused: true
	// release: <nil>
	// a late repetition is refused: true
}

// A silent node costs its time-out, and no more.
func ExampleWithNodeTimeout() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker, err := redlock.New(nodes, redlock.WithNodeTimeout(100*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	defer hang(nodes[0])() // until this example ends
	defer hang(nodes[1])()

	_, err = locker.TryAcquire(context.Background(), "orders:42")
	var quorum *redlock.QuorumError
	if errors.As(err, &quorum) {
		fmt.Println(quorum.Votes[0].Err)
	}
	// Output: no answer within 100ms: see whether the node is up and can be reached, and whether it speaks TLS at this port (rediss://) or not (redis://)
}

// Nodes whose clocks are bad leave less of a lease.
func ExampleWithDriftFactor() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker, err := redlock.New(nodes, redlock.WithDriftFactor(0.1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	lock, err := locker.Acquire(context.Background(), "orders:42", redlock.WithTTL(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(time.Until(lock.Until()).Truncate(time.Second))
	// Output: 53s
}

// Two services that share nodes keep out of each other's way.
func ExampleWithKeyPrefix() {
	nodes := open(1) // goredis.Open("redis://10.0.0.1")
	locker, err := redlock.New(nodes, redlock.WithKeyPrefix("shop:"))
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
	fmt.Println("here:", lock.Key())
	fmt.Println("on the node:", keys(nodes[0]))
	// Output:
	// here: orders:42
	// on the node: [shop:orders:42]
}

// A service that has to stop quickly gives Close less time. The error says what is left.
func ExampleWithCloseTimeout() {
	nodes := open(1) // goredis.Open("redis://10.0.0.1")
	locker, err := redlock.New(nodes, redlock.WithCloseTimeout(50*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := locker.Acquire(context.Background(), "orders:42"); err != nil {
		fmt.Println(err)
		return
	}
	crash(nodes[0])
	fmt.Println(locker.Close())
	// Output: redlock: close: no quorum has confirmed the release of these keys: "orders:42" at 10.0.0.1:6379; they go away by themselves, one TTL after their nodes answer again at the latest
}
