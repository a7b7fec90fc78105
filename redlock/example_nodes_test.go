package redlock_test

import (
	"fmt"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
)

// goredis stands for the package driver/goredis, which this module must not require:
// its nodes are in memory, so that the examples run anywhere.
var goredis adapter

type adapter struct{}

func (adapter) Open(urls ...string) ([]driver.Node, error) {
	var nodes []driver.Node
	for _, url := range urls {
		end, err := driver.ParseURL(url)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, redlock.FakeNode(end.Addr))
	}
	return nodes, nil
}

// open returns n nodes: 10.0.0.1:6379, 10.0.0.2:6379 and so on.
func open(n int) []driver.Node {
	var nodes []driver.Node
	for i := range n {
		nodes = append(nodes, redlock.FakeNode(fmt.Sprintf("10.0.0.%d:6379", i+1)))
	}
	return nodes
}

// What happens to servers in life happens to those of the examples by a call.
var (
	crash       = redlock.Crash
	hang        = redlock.Hang
	flush       = redlock.Flush
	refuse      = redlock.Refuse
	limitMemory = redlock.LimitMemory
	keys        = redlock.Keys
)

// newLocker returns a Locker on the nodes.
func newLocker(nodes []driver.Node, options ...redlock.Option) *redlock.Locker {
	locker, err := redlock.New(nodes, options...)
	if err != nil {
		panic(err)
	}
	return locker
}
