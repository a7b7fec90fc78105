// Demo shows what a lock over five nodes bears, and what it does not. The nodes are
// embedded, and all that it prints has happened.
//
//	go run ./demo
//	go run ./demo -command /usr/bin/quorumlock                     # with a second act
//	go run ./demo -command /usr/bin/quorumlock -record docs/demo   # and a picture of it
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

func main() {
	command := flag.String("command", "", "the `path` of quorumlock, for the act in which an operator looks on")
	record := flag.String("record", "", "write the second act to `file`.txt, and a picture of it to file.svg")
	flag.Parse()
	if err := perform(*command, *record); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// perform tells the story, and records its second act.
func perform(command, record string) error {
	if record == "" {
		return run(os.Stdout, command)
	}
	var text bytes.Buffer
	if err := run(io.MultiWriter(os.Stdout, &text), command); err != nil {
		return err
	}
	_, act, _ := strings.Cut(text.String(), interval)
	return errors.Join(
		os.WriteFile(record+".txt", []byte(act), 0o644),       //nolint:gosec // everybody may read it
		os.WriteFile(record+".svg", []byte(draw(act)), 0o644)) //nolint:gosec // likewise
}

func run(out io.Writer, command string) error {
	servers, err := redlocktest.New(5)
	if err != nil {
		return err
	}
	defer servers.Close()
	alice, err := connect(goredis.Open, servers, "alice@web-1")
	if err != nil {
		return err
	}
	// What was on its way to a node that was killed counts as unknown for one TTL, and
	// Close says so. The story has looked at the nodes themselves.
	defer func() { _ = alice.Close() }()
	bob, err := connect(redigo.Open, servers, "bob@web-2")
	if err != nil {
		return err
	}
	defer func() { _ = bob.Close() }()

	s := &story{page: page{log.New(out, "", 0)}, servers: servers, alice: alice, bob: bob}
	if err := s.tell(); err != nil || command == "" {
		return err
	}
	if s.operator, err = look(command, servers.Addrs()); err != nil {
		return err
	}
	defer s.operator.leave()
	s.log.Print(interval)
	return s.steps(s.act())
}

// interval is between the acts.
const interval = "\n——— second act ———\n"

// connect makes a client of its own for the servers, which has the story's names for
// them.
func connect(open func(urls ...string) ([]driver.Node, error), servers redlocktest.Nodes, owner string) (*redlock.Locker, error) {
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
		redlock.WithOwner(owner),
		redlock.WithNodeTimeout(2*time.Second), // nodes and clients share a machine that may be busy
		redlock.WithCloseTimeout(100*time.Millisecond),
	)
}
