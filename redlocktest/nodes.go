package redlocktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// Nodes are independent masters. A part of them (nodes[:2]) is Nodes as well.
type Nodes []*Node

// New starts n nodes that listen on free ports of 127.0.0.1. Leases run by the wall
// clock. It is for programs, which call [Nodes.Close] at the end; a test calls
// [Start]. The error is that n is below 1, or that no port is free.
func New(n int) (Nodes, error) {
	return start(n, func(int) *Node {
		return &Node{listens: true}
	})
}

// Start is [New] for a test: it stops the nodes when the test ends, and fails the test
// where they cannot be started. [Node.FastForward] saves waiting for leases to end.
func Start(t testing.TB, n int) Nodes {
	t.Helper()
	nodes, err := New(n)
	return nodes.stopWith(t, err)
}

// StartInBubble starts n nodes without a listener, and stops them when the test
// ends. A test calls it within a testing/synctest bubble, where sockets cannot be
// used: leases then run by the bubble's clock. [Nodes.Drivers] or [Node.Dial] lead
// to the nodes; their addresses are names only.
func StartInBubble(t testing.TB, n int) Nodes {
	t.Helper()
	nodes, err := start(n, func(i int) *Node {
		return &Node{addr: fmt.Sprintf("node%d:6379", i+1)}
	})
	return nodes.stopWith(t, err)
}

func start(n int, build func(i int) *Node) (Nodes, error) {
	if n < 1 {
		return nil, fmt.Errorf("redlocktest: %d nodes; want at least 1", n)
	}
	var nodes Nodes
	for i := range n {
		node := build(i)
		nodes = append(nodes, node)
		if err := node.RestartEmpty(); err != nil {
			nodes.Close()
			return nil, err
		}
	}
	return nodes, nil
}

func (nodes Nodes) stopWith(t testing.TB, err error) Nodes {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slices.Clone(nodes).Close) // the test may put others in their places
	return nodes
}

// Addrs returns the nodes' addresses, in order, for a client of your own.
func (nodes Nodes) Addrs() []string {
	addrs := make([]string, len(nodes))
	for i, node := range nodes {
		addrs[i] = node.Addr()
	}
	return addrs
}

// Drivers returns what redlock.New takes, without any client library. Each call
// makes drivers of its own, so that each Locker can close its own.
func (nodes Nodes) Drivers() []driver.Node {
	drivers := make([]driver.Node, len(nodes))
	for i, node := range nodes {
		drivers[i] = driver.Node{Name: node.Addr(), Driver: resp.NewClient("redlocktest", node.Dial), Client: node}
	}
	return drivers
}

// Close stops all nodes and returns when nothing of them runs any more. What they
// held can still be read.
func (nodes Nodes) Close() { nodes.each((*Node).close) }

// Hang hangs all of them, as [Node.Hang] does one: nodes[:2].Hang().
func (nodes Nodes) Hang() { nodes.each((*Node).Hang) }

// Resume undoes Hang.
func (nodes Nodes) Resume() { nodes.each((*Node).Resume) }

// Stop stops all of them, as [Node.Stop] does one.
func (nodes Nodes) Stop() { nodes.each((*Node).Stop) }

// Take lets somebody else hold the key for so long, on all of them: nodes.Take("orders:42",
// time.Minute). With a time of at most 0 it is for ever. A lock that is held is overwritten.
func (nodes Nodes) Take(key string, ttl time.Duration) {
	nodes.each(func(n *Node) { n.Take(key, ttl) })
}

func (nodes Nodes) each(do func(*Node)) {
	for _, node := range nodes {
		do(node)
	}
}
