package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// settle is the work that a lock protects. It ends early if its context does.
func settle(ctx context.Context, order int) error {
	fmt.Println("settling order", order)
	return ctx.Err()
}

// A service makes one Locker for its life, and takes a lock around each piece of work
// that only one process may do at a time.
func Example() {
	// Five masters of their own. Those who have clients give them to goredis.Nodes.
	nodes, err := goredis.Open(
		"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3", "redis://10.0.0.4", "redis://10.0.0.5")
	if err != nil {
		fmt.Println(err)
		return
	}
	locker, err := redlock.New(nodes)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	err = locker.Do(context.Background(), "orders:42", func(ctx context.Context) error {
		return settle(ctx, 42) // alone; ctx ends if the lock is lost
	}, redlock.WithMaxWait(time.Second))
	fmt.Println(err) // ErrLost would say that the work may not have been alone
	// Output:
	// settling order 42
	// <nil>
}

// Five nodes bear the loss of two.
func ExampleNew() {
	nodes := open(5) // goredis.Nodes(clients...), or redigo's or rueidis's
	locker, err := redlock.New(nodes, redlock.WithTTL(30*time.Second), redlock.WithKeyPrefix("shop:"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	crash(nodes[0])
	crash(nodes[3])
	_, err = locker.Acquire(context.Background(), "orders:42")
	fmt.Println(err)
	// Output: <nil>
}

// One server must not vote twice.
func ExampleNew_refused() {
	nodes, err := goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = redlock.New(nodes)
	fmt.Println(err)
	fmt.Println(errors.Is(err, redlock.ErrOption))
	// Output:
	// redlock: nodes: 1 (10.0.0.1:6379) and 3 (10.0.0.1:6379) are the same server, which would vote twice: give each node a server of its own
	// true
}

// Acquire waits while somebody else has the key.
func ExampleLocker_Acquire() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()

	first, err := locker.Acquire(ctx, "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	released := make(chan error, 1)
	time.AfterFunc(20*time.Millisecond, func() { released <- first.Release() })

	second, err := locker.Acquire(ctx, "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("first:", first.Valid(), <-released)
	fmt.Println("second:", second.Valid())
	// Output:
	// first: false <nil>
	// second: true
}

// TryAcquire does not wait.
func ExampleLocker_TryAcquire() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()

	for range 2 {
		_, err := locker.TryAcquire(ctx, "orders:42")
		if errors.Is(err, redlock.ErrTaken) {
			fmt.Println("somebody else settles the order")
			continue
		}
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// somebody else settles the order
}

// Close gives back what is held, so that others need not wait for leases to end.
func ExampleLocker_Close() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker := newLocker(nodes)
	lock, err := locker.Acquire(ctx, "orders:42", redlock.WithTTL(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	work := lock.Context()

	fmt.Println(locker.Close())
	fmt.Println(context.Cause(work))

	other := newLocker(nodes) // in another process
	defer other.Close()
	_, err = other.TryAcquire(ctx, "orders:42")
	fmt.Println(err)
	// Output:
	// <nil>
	// locker closed
	// <nil>
}
