package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// Do is all that most work needs: the lock is kept alive while the function runs, and
// released after it.
func ExampleLocker_Do() {
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	err := locker.Do(context.Background(), "orders:42", func(ctx context.Context) error {
		return settle(ctx, 42) // ctx ends if the lock is lost
	}, redlock.WithMaxWait(time.Second))
	fmt.Println(err)
	// Output:
	// settling order 42
	// <nil>
}

// A lock that was lost while the function ran is an error, whatever the function says.
func ExampleLocker_Do_lost() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker := newLocker(nodes)
	defer locker.Close()
	err := locker.Do(context.Background(), "orders:42", func(ctx context.Context) error {
		crash(nodes[0])
		crash(nodes[1])
		<-ctx.Done()
		return nil
	}, redlock.WithTTL(300*time.Millisecond))
	fmt.Println(errors.Is(err, redlock.ErrLost))
	// Output: true
}

// A lease of a fixed time ends by itself.
func ExampleWithoutRenewal() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	lock, err := locker.Acquire(ctx, "orders:42", redlock.WithTTL(300*time.Millisecond), redlock.WithoutRenewal())
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Context().Done()
	fmt.Println(context.Cause(lock.Context()))
	// Output: lock lost
}

// Work that hangs does not keep the lock for ever.
func ExampleWithMaxHold() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	lock, err := locker.Acquire(ctx, "orders:42", redlock.WithTTL(time.Second),
		redlock.WithMaxHold(1500*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Context().Done()
	fmt.Println(context.Cause(lock.Context()))
	// Output: lock lost: it was held for 1.5s, the longest time that WithMaxHold allows
}

// An operator hears that a lock hangs by fewer nodes than it could, before it is lost.
func ExampleHooks_renewals() {
	nodes := open(5) // goredis.Open("redis://10.0.0.1", …)
	told := make(chan redlock.ExtendEnd, 100)
	locker, err := redlock.New(nodes, redlock.WithTTL(2*time.Second),
		redlock.WithHooks(redlock.Hooks{ExtendEnd: func(_ context.Context, e redlock.ExtendEnd) { told <- e }}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	crash(nodes[4])
	lock, err := locker.Acquire(context.Background(), "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Release()
	e := <-told
	fmt.Printf("renewed %q: held at %d of %d nodes, %d are needed\n", e.Key, e.Granted, e.Nodes, e.Need)
	// Output: renewed "orders:42": held at 4 of 5 nodes, 3 are needed
}

// Code below a function under Do finds its lock in the context.
func ExampleFromContext() {
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	err := locker.Do(context.Background(), "orders:42", func(ctx context.Context) error {
		fmt.Println(redlock.FromContext(ctx).Key())
		return nil
	})
	fmt.Println(err)
	// Output:
	// orders:42
	// <nil>
}
