package redlocktest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// set sends one SET to a node, with half a second to answer.
func set(node driver.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	replies, err := node.Driver.Do(ctx, []driver.Command{{
		Args: []any{"SET", "orders:42", "token", "NX", "PX", "10000"}, FirstKey: 1, Keys: 1,
	}})
	switch {
	case err != nil:
		fmt.Println("no answer:", ctx.Err())
	case replies[0].Err() != nil:
		fmt.Println("refused:", replies[0].Err())
	default:
		fmt.Println("answered:", replies[0].Str)
	}
}

func ExampleNew() {
	nodes, err := redlocktest.New(5)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()

	fmt.Println(len(nodes.Addrs()), "nodes")
	for _, node := range nodes.Drivers() { // with redlock.New(nodes.Drivers()) for a Locker
		set(node)
	}
	// Output:
	// 5 nodes
	// answered: OK
	// answered: OK
	// answered: OK
	// answered: OK
	// answered: OK
}

func ExampleNode_Hang() {
	nodes, err := redlocktest.New(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()

	nodes[0].Hang()
	set(nodes.Drivers()[0]) // the SET stays at the node

	nodes[0].Stop() // and is forgotten with it; Resume would have executed it
	fmt.Println("keys:", nodes[0].Keys())
	// Output:
	// no answer: context deadline exceeded
	// keys: []
}

func ExampleNode_Fail() {
	nodes, err := redlocktest.New(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()

	nodes[0].Fail("READONLY You can't write against a read only replica.")
	set(nodes.Drivers()[0])
	nodes[0].Heal()
	set(nodes.Drivers()[0])
	// Output:
	// refused: READONLY You can't write against a read only replica.
	// answered: OK
}

func ExampleNode_RestartEmpty() {
	nodes, err := redlocktest.New(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nodes.Close()

	set(nodes.Drivers()[0])
	nodes[0].Stop()
	fmt.Println("stopped:", nodes[0].Keys()) // can be read all the same
	if err := nodes[0].RestartEmpty(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("restarted:", nodes[0].Keys())
	// Output:
	// answered: OK
	// stopped: [orders:42]
	// restarted: []
}
