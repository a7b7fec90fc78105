package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// All work that the lock protects gets the lock's context, and so ends with the lease.
func ExampleLock_Context() {
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()

	lock, err := locker.Acquire(context.Background(), "orders:42", redlock.WithTTL(300*time.Millisecond), redlock.WithoutRenewal())
	if err != nil {
		fmt.Println(err)
		return
	}
	work := lock.Context()
	<-work.Done() // the work takes longer than the lease
	fmt.Println(context.Cause(work))
	// Output: lock lost
}

// Long work yields at a safe point to whoever waits.
func ExampleLock_Wanted() {
	ctx := context.Background()
	nodes := open(3)
	ours, theirs := newLocker(nodes), newLocker(nodes)
	defer ours.Close()
	defer theirs.Close()
	lock, err := ours.Acquire(ctx, "reindex")
	if err != nil {
		fmt.Println(err)
		return
	}
	other := make(chan error)
	go func() { other <- theirs.Do(ctx, "reindex", func(context.Context) error { return nil }) }()

	for wanted := false; !wanted; {
		select {
		case <-lock.Wanted():
			wanted = true
		case <-time.After(time.Millisecond): // the next page of the work
		}
	}
	fmt.Println("yields:", lock.Release())
	fmt.Println("the other:", <-other)
	// Output:
	// yields: <nil>
	// the other: <nil>
}

// Extend gives the work more time. It never takes time away.
func ExampleLock_Extend() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	lock, err := locker.Acquire(ctx, "orders:42", redlock.WithTTL(10*time.Second), redlock.WithoutRenewal())
	if err != nil {
		fmt.Println(err)
		return
	}
	more := func() bool { return time.Until(lock.Until()) > time.Minute }

	fmt.Println("more than a minute left:", more())
	fmt.Println(lock.Extend(ctx, 2*time.Minute))
	fmt.Println("more than a minute left:", more())
	fmt.Println(lock.Extend(ctx, 10*time.Second))
	fmt.Println("more than a minute left:", more())
	// Output:
	// more than a minute left: false
	// <nil>
	// more than a minute left: true
	// <nil>
	// more than a minute left: true
}

// A lock whose lease has ended is lost for good: somebody else may have had the key.
func ExampleLock_Extend_tooLate() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	lock, err := locker.Acquire(ctx, "orders:42", redlock.WithTTL(300*time.Millisecond), redlock.WithoutRenewal())
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Context().Done()
	fmt.Println(errors.Is(lock.Extend(ctx, time.Minute), redlock.ErrLost))
	// Output: true
}

// The key is given back even where the work was cut short: the context of the
// release has not ended.
func ExampleLock_Release() {
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lock, err := locker.Acquire(ctx, "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	cancel() // the request is gone, and with it lock.Context()

	fmt.Println(lock.Release())
	fmt.Println(errors.Is(lock.Release(), redlock.ErrReleased))
	// Output:
	// <nil>
	// true
}

// Release says when the lease did not last: the end of the work was not protected.
func ExampleLock_Release_lost() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	lock, err := locker.Acquire(ctx, "orders:42", redlock.WithTTL(300*time.Millisecond), redlock.WithoutRenewal())
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Context().Done() // the work takes too long
	if err := lock.Release(); errors.Is(err, redlock.ErrLost) {
		fmt.Println("look whether the work was done twice")
	}
	// Output: look whether the work was done twice
}

// Held asks the nodes, where Valid looks at the lease.
func ExampleLock_Confirm() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker := newLocker(nodes)
	defer locker.Close()
	lock, err := locker.Acquire(ctx, "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Confirm(ctx))

	for _, node := range nodes {
		flush(node) // somebody runs FLUSHALL
	}
	fmt.Println(lock.Confirm(ctx))
	// Output:
	// true <nil>
	// false <nil>
}

// Of a lease of a minute 59.4 seconds are sure: clocks may drift apart by 1%.
func ExampleLock_Until() {
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	lock, err := locker.Acquire(context.Background(), "orders:42", redlock.WithTTL(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(time.Until(lock.Until()).Truncate(time.Second))
	// Output: 59s
}

// Work that goes step by step looks before each whether it may go on.
func ExampleLock_Valid() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	lock, err := locker.Acquire(ctx, "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Valid())
	fmt.Println(lock.Release())
	fmt.Println(lock.Valid())
	// Output:
	// true
	// <nil>
	// false
}

// A quorum decides; nobody waits for a node that is silent.
func ExampleLock_Votes() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker := newLocker(nodes)
	defer locker.Close()
	defer hang(nodes[2])() // until this example ends

	lock, err := locker.Acquire(context.Background(), "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, vote := range lock.Votes() {
		fmt.Println(vote.Node, vote.Answer)
	}
	// Output:
	// 10.0.0.1:6379 granted
	// 10.0.0.2:6379 granted
	// 10.0.0.3:6379 pending
}

// Every acquire has a token of its own, which says on the nodes who holds the key.
func ExampleLock_Token() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	one, err := locker.Acquire(ctx, "orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	two, err := locker.Acquire(ctx, "orders:43")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(one.Key(), two.Key(), one.Token() == two.Token())
	// Output: orders:42 orders:43 false
}
