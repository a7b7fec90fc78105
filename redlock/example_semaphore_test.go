package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// Three licences, and whoever works has one of them alone.
func ExampleLocker_Semaphore() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	licences, err := locker.Semaphore("licences", 3)
	if err != nil {
		fmt.Println(err)
		return
	}

	permit, err := licences.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer permit.Release()
	// Work under permit.Context(), with licence permit.Slot(): 0, 1 or 2.
	fmt.Println(permit.Valid(), permit.Slots()[0] < licences.Permits())
	// Output: true true
}

// A worker that goes on without a permit if none is free.
func ExampleSemaphore_TryAcquire() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	uploads, err := locker.Semaphore("uploads", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := uploads.TryAcquire(ctx); err != nil {
		fmt.Println(err)
		return
	}

	_, err = uploads.TryAcquire(ctx)
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output: true
}

// Somebody else waits for a short time only.
func ExampleSemaphore_Acquire() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	uploads, err := locker.Semaphore("uploads", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := uploads.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Release()
	second, err := uploads.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Release()
	fmt.Println(first.Slots()[0] != second.Slots()[0])

	_, err = uploads.Acquire(ctx, redlock.WithMaxWait(50*time.Millisecond))
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output:
	// true
	// true
}

// A job that needs half of the workers takes them all at once, or waits.
func ExampleSemaphore_AcquireN() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	workers, err := locker.Semaphore("workers", 8)
	if err != nil {
		fmt.Println(err)
		return
	}

	half, err := workers.AcquireN(ctx, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer half.Release() // of all four
	fmt.Println(half.Valid(), len(half.Slots()))

	_, err = workers.TryAcquireN(ctx, 5)
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	_, err = workers.AcquireN(ctx, 9)
	fmt.Println(errors.Is(err, redlock.ErrOption))
	// Output:
	// true 4
	// true
	// true
}

// Clients that name different numbers of permits are told.
func ExampleLock_Slots() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker := newLocker(nodes)
	defer locker.Close()
	gpus, err := locker.Semaphore("gpus", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	used := map[int]bool{}
	for range gpus.Permits() {
		permit, err := gpus.Acquire(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		used[permit.Slots()[0]] = true
	}
	fmt.Println(used[0], used[1])

	more, err := locker.Semaphore("gpus", 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = more.Acquire(ctx)
	fmt.Println(errors.Is(err, redlock.ErrPermits))
	// Output:
	// true true
	// true
}
