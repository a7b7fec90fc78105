package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	time.AfterFunc(20*time.Millisecond, func() { _ = lock.Release() })
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

// Two offices, each a process of its own, share a printer. Jobs are printed in the order in which
// they came, whatever office they come from. An urgent one overtakes those that came less than a
// minute before it.
func ExampleWithPriority() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", …)
	offices := []*redlock.Locker{newLocker(nodes, redlock.WithFairness()), newLocker(nodes, redlock.WithFairness())}
	busy, err := offices[0].Acquire(ctx, "printer")
	if err != nil {
		fmt.Println(err)
		return
	}
	var all sync.WaitGroup
	for i, job := range []string{"letter", "invoice", "photo", "urgent"} {
		office, priority := offices[i%2], 0
		if job == "urgent" {
			priority = 60
		}
		all.Go(func() {
			lock, err := office.Acquire(ctx, "printer", redlock.WithPriority(priority))
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(job)
			_ = lock.Release()
		})
		time.Sleep(time.Second) // far longer than a round trip, on a busy machine too
	}
	_ = busy.Release()
	all.Wait()
	for _, office := range offices {
		_ = office.Close()
	}
	// Output:
	// urgent
	// letter
	// invoice
	// photo
}

// Two processes take the same keys, one under the other, and not in the same order.
func ExampleWithDeadlockDetection() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", …)
	results := make(chan error)
	both := make(chan struct{}, 2)
	process := func(owner, first, second string) {
		locker := newLocker(nodes, redlock.WithDeadlockDetection(100*time.Millisecond), redlock.WithOwner(owner))
		defer locker.Close()
		results <- locker.Do(ctx, first, func(ctx context.Context) error {
			both <- struct{}{}
			for len(both) < 2 {
				time.Sleep(time.Millisecond) // until the other has its first key
			}
			return locker.Do(ctx, second, func(context.Context) error { return nil })
		})
	}
	go process("orders", "a", "b")
	go process("billing", "b", "a")
	for range 2 {
		var ring *redlock.DeadlockError
		if err := <-results; errors.As(err, &ring) {
			fmt.Println("one of them is told of a ring of", len(ring.Cycle)) // and has released its first key
		} else {
			fmt.Println("the other has both keys:", err == nil)
		}
	}
	// Unordered output:
	// one of them is told of a ring of 2
	// the other has both keys: true
}
