package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
)

// Each error of an acquire says what to do next.
func Example_errors() {
	ctx := context.Background()
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	locker := newLocker(nodes)
	next := func(key string) string {
		_, err := locker.Acquire(ctx, key, redlock.WithMaxWait(10*time.Millisecond))
		switch {
		case err == nil:
			return "do the work"
		case errors.Is(err, redlock.ErrTaken):
			return "somebody else does it: come back later"
		case errors.Is(err, redlock.ErrNoQuorum):
			return "nobody can say who has it: look at the nodes"
		case errors.Is(err, redlock.ErrClosed):
			return "the service is shutting down"
		case errors.Is(err, redlock.ErrOption):
			return "fix the program"
		default:
			return err.Error()
		}
	}

	fmt.Println(next("orders:42"))
	fmt.Println(next("orders:42"))
	fmt.Println(next(""))
	refuse(nodes[0], "SET", "NOPERM User jobs has no permissions to run the 'set' command")
	refuse(nodes[1], "SET", "NOPERM User jobs has no permissions to run the 'set' command")
	fmt.Println(next("orders:43"))
	fmt.Println(locker.Close())
	fmt.Println(next("orders:43"))
	// Output:
	// do the work
	// somebody else does it: come back later
	// fix the program
	// nobody can say who has it: look at the nodes
	// <nil>
	// the service is shutting down
}

// A wait that a context has ended says both: that it ended, and what it waited for.
func Example_deadline() {
	locker := newLocker(open(3)) // redlock.New on the nodes of goredis.Open("redis://10.0.0.1", …)
	defer locker.Close()
	if _, err := locker.Acquire(context.Background(), "orders:42"); err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := locker.Acquire(ctx, "orders:42")
	fmt.Println(errors.Is(err, redlock.ErrTaken), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

// A QuorumError has every node's answer.
func ExampleQuorumError() {
	nodes := open(5) // goredis.Open("redis://10.0.0.1", …, "redis://10.0.0.5")
	locker := newLocker(nodes)
	defer locker.Close()
	for _, node := range nodes[2:] {
		crash(node)
	}

	_, err := locker.TryAcquire(context.Background(), "orders:42")
	var quorum *redlock.QuorumError
	if errors.As(err, &quorum) {
		fmt.Printf("%s %s: %v, %d votes of %d needed\n", quorum.Op, quorum.Key, quorum.Reason, quorum.Need, len(quorum.Votes))
		for _, vote := range quorum.Votes[2:] {
			fmt.Println(vote.Err)
		}
	}
	// Output:
	// acquire orders:42: no quorum, 3 votes of 5 needed
	// dial tcp 10.0.0.3:6379: connect: connection refused: nothing was sent
	// dial tcp 10.0.0.4:6379: connect: connection refused: nothing was sent
	// dial tcp 10.0.0.5:6379: connect: connection refused: nothing was sent
}

// Where a server refuses, its code word tells why.
func ExampleVote() {
	nodes := open(1) // goredis.Open("redis://10.0.0.1")
	locker := newLocker(nodes)
	defer locker.Close()
	refuse(nodes[0], "SET", "OOM command not allowed when used memory > 'maxmemory'.")

	_, err := locker.TryAcquire(context.Background(), "orders:42")
	var quorum *redlock.QuorumError
	if !errors.As(err, &quorum) {
		fmt.Println(err)
		return
	}
	for _, vote := range quorum.Votes {
		var server *driver.ServerError
		if errors.As(vote.Err, &server) {
			fmt.Println(vote.Node, server.Code)
		}
	}
	// Output: 10.0.0.1:6379 OOM
}

// A vote in words is the node, its answer, and how long that took.
func ExampleVote_String() {
	fmt.Println(redlock.Vote{Node: "10.0.0.1:6379", Answer: "granted", Latency: 412 * time.Microsecond})
	fmt.Println(redlock.Vote{Node: "10.0.0.2:6379", Answer: "taken", Latency: 1380 * time.Microsecond})
	fmt.Println(redlock.Vote{Node: "10.0.0.3:6379"})
	// Output:
	// 10.0.0.1:6379: granted (410µs)
	// 10.0.0.2:6379: taken by another (1.38ms)
	// 10.0.0.3:6379: not answered yet
}

// A setting that is not valid is never corrected in silence.
func ExampleOptionError() {
	nodes := open(3) // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
	_, err := redlock.New(nodes, redlock.WithTTL(10*time.Second), redlock.WithNodeTimeout(15*time.Second))
	var option *redlock.OptionError
	if errors.As(err, &option) {
		fmt.Println(option.Option)
		fmt.Println(option.Reason)
	}
	// Output:
	// NodeTimeout
	// 15s is not between 0 and the TTL of 10s
}
