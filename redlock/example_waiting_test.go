package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// WithMaxWait bounds the wait alone. A time-out in ctx would end the lock's context
// as well.
func ExampleWithMaxWait() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	if _, err := locker.Acquire(ctx, "orders:42"); err != nil {
		fmt.Println(err)
		return
	}

	began := time.Now()
	_, err := locker.Acquire(ctx, "orders:42", redlock.WithMaxWait(100*time.Millisecond))
	fmt.Println(errors.Is(err, redlock.ErrTaken), time.Since(began) >= 100*time.Millisecond)
	// Output: true true
}

// One try and no more: what TryAcquire does, as the default of a Locker.
func ExampleWithRetryLimit() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker, err := redlock.New(nodes, redlock.WithRetryLimit(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	if _, err := locker.Acquire(ctx, "orders:42"); err != nil {
		fmt.Println(err)
		return
	}
	_, err = locker.Acquire(ctx, "orders:42")
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output: true
}

// Where locks are short, waiters may look more often.
func ExampleWithBackoff() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker, err := redlock.New(nodes, redlock.WithBackoff(time.Millisecond, 10*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	lock, err := locker.Acquire(ctx, "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = lock.Release(ctx) })
	_, err = locker.Acquire(ctx, "orders:42")
	fmt.Println(err)
	// Output: <nil>
}

// Acquire hopes for dead nodes to come back while a TTL passes. Who would rather know
// at once says so.
func ExampleWithMaxOutage() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker := newLocker(nodes)
	defer locker.Close()
	crash(nodes[0])
	crash(nodes[2])
	_, err := locker.Acquire(context.Background(), "orders:42", redlock.WithMaxOutage(0))
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	// Output: true
}
