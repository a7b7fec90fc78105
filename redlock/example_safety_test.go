package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// A fence orders the holders of a key: what the lock protects refuses a number below the
// greatest that it has seen, and with it a holder whose lease has ended unnoticed.
func ExampleWithFences() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker, err := redlock.New(nodes, redlock.WithFences())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	var seen int64 // in the store: a column, compared in the WHERE clause of the write
	write := func(lock *redlock.Lock) {
		if lock.Fence() < seen {
			fmt.Println("a late writer is refused")
			return
		}
		seen = lock.Fence()
		fmt.Println("written")
	}

	first, err := locker.Acquire(ctx, "orders:42", redlock.WithTTL(50*time.Millisecond), redlock.WithoutRenewal())
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := locker.Acquire(ctx, "orders:42") // waits for the first one's lease to end
	if err != nil {
		fmt.Println(err)
		return
	}
	write(second)
	write(first)
	// Output:
	// written
	// a late writer is refused
}

// New nodes have no votes until somebody has watched them for 9/8 of the longest TTL, once. So it is
// with a node that comes back empty: by then all leases have ended that it may have forgotten.
func ExampleWithRestartGuard() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker, err := redlock.New(nodes, redlock.WithTTL(200*time.Millisecond), redlock.WithRestartGuard(200*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	_, err = locker.TryAcquire(ctx, "orders:42")
	fmt.Println("new nodes are in quarantine:", errors.Is(err, redlock.ErrQuarantine))
	_, err = locker.Acquire(ctx, "orders:42") // waits until they vote
	fmt.Println("a lock:", err)
	// Output:
	// new nodes are in quarantine: true
	// a lock: <nil>
}
