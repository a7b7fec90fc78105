package redlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/redlock"
)

// Readers have the key together. A writer has it alone.
func ExampleLocker_AcquireShared() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()

	one, err := locker.AcquireShared(ctx, "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	two, err := locker.AcquireShared(ctx, "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = locker.TryAcquire(ctx, "config")
	fmt.Println("a writer beside readers:", errors.Is(err, redlock.ErrTaken))
	fmt.Println(one.Release(), two.Release())
	_, err = locker.Acquire(ctx, "config") // waits for what is left of the releases, if need be
	fmt.Println("a writer behind them:", err)
	// Output:
	// a writer beside readers: true
	// <nil> <nil>
	// a writer behind them: <nil>
}

// A writer that goes on to read lets others read meanwhile. No other writer comes in between.
func ExampleLock_Downgrade() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	writer, err := locker.Acquire(ctx, "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	reader, err := writer.Downgrade(ctx)
	if reader != nil { // also with an error: then only the lease was not prolonged
		defer reader.Release()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	other, err := locker.AcquireShared(ctx, "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Release()
	fmt.Println(writer.Valid(), reader.Valid(), other.Valid())
	// Output: false true true
}

// A reader that is alone writes what follows from what it has read.
func ExampleLock_TryUpgrade() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	reader, err := locker.AcquireShared(ctx, "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	writer, err := reader.TryUpgrade(ctx)
	if err != nil { // other readers: the lock stays shared, so give way and begin again
		fmt.Println(err)
		return
	}
	fmt.Println(reader.Valid(), writer.Valid())
	fmt.Println(writer.Release())
	// Output:
	// false true
	// <nil>
}
