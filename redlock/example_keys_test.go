package redlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/redlock"
)

// Money between two accounts: both are locked, or none. Whoever names them the other way round
// waits, and holds neither meanwhile.
func ExampleLocker_AcquireAll() {
	ctx := context.Background()
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	lock, err := locker.AcquireAll(ctx, []string{"account:7", "account:3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Release()
	fmt.Println(lock.Keys(), lock.Context().Err()) // work under lock.Context()
	// Output: [account:3 account:7] <nil>
}

// The error says which key was in the way.
func ExampleLocker_TryAcquireAll() {
	ctx := context.Background()
	locker := newLocker(open(1)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	if _, err := locker.Acquire(ctx, "account:3"); err != nil {
		fmt.Println(err)
		return
	}
	_, err := locker.TryAcquireAll(ctx, []string{"account:7", "account:3"})
	var refused *redlock.QuorumError
	if errors.Is(err, redlock.ErrTaken) && errors.As(err, &refused) {
		fmt.Println("in the way:", refused.Votes[0].Key)
	}
	// Output: in the way: account:3
}
