// Demo shows what a lock over five nodes bears, and what it does not. The nodes are
// embedded, and all that it prints has happened.
//
//	go run ./demo
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	servers, err := redlocktest.New(5)
	if err != nil {
		return err
	}
	defer servers.Close()
	alice, err := connect(goredis.Open, servers)
	if err != nil {
		return err
	}
	// What was on its way to a node that was killed counts as unknown for one TTL, and
	// Close says so. The story has looked at the nodes themselves.
	defer func() { _ = alice.Close() }()
	bob, err := connect(redigo.Open, servers)
	if err != nil {
		return err
	}
	defer func() { _ = bob.Close() }()

	s := &story{page: page{log.New(out, "", 0)}, servers: servers, alice: alice, bob: bob}
	return s.tell()
}

// connect makes a client of its own for the servers, which has the story's names for
// them.
func connect(open func(urls ...string) ([]driver.Node, error), servers redlocktest.Nodes) (*redlock.Locker, error) {
	var urls []string
	for _, addr := range servers.Addrs() {
		urls = append(urls, "redis://"+addr)
	}
	nodes, err := open(urls...)
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		nodes[i].Name = fmt.Sprintf("node %d", i+1)
	}
	return redlock.New(nodes,
		redlock.WithTTL(lease),
		redlock.WithNodeTimeout(2*time.Second), // nodes and clients share a machine that may be busy
		redlock.WithCloseTimeout(100*time.Millisecond),
	)
}
