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

// perform tells the story, and records its second act.
func perform() error {
	command := flag.String("command", "", "the `path` of quorumlock, for the act in which an operator looks on")
	record := flag.String("record", "", "write the second act to `file`.txt, and a picture of it to file.svg")
	flag.Parse()
	var text bytes.Buffer
	if err := run(io.MultiWriter(os.Stdout, &text), *command); err != nil || *record == "" {
		return err
	}
	_, act, _ := strings.Cut(text.String(), interval)
	return errors.Join(
		os.WriteFile(*record+".txt", []byte(act), 0o644),       //nolint:gosec // everybody may read it
		os.WriteFile(*record+".svg", []byte(draw(act)), 0o644)) //nolint:gosec // likewise
}

func run(out io.Writer, command string) error {
	servers, err := redlocktest.New(5)
	if err != nil {
		return err
	}
	defer servers.Close()
	s, err := begin(out, servers)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.tell(); err != nil || command == "" {
		return err
	}
	if s.operator, err = look(command, urls(servers)); err != nil {
		return err
	}
	defer s.operator.leave()
	s.log.Print(interval)
	return s.steps(s.act())
}

// interval is between the acts.
const interval = "\n——— second act ———\n"

// begin makes the two clients of a story.
func begin(out io.Writer, servers redlocktest.Nodes) (s *story, err error) {
	s = &story{page: page{log.New(out, "", 0)}, servers: servers}
	if s.alice, err = connect(goredis.Open, servers, "alice@web-1"); err != nil {
		return nil, err
	}
	s.bob, err = connect(redigo.Open, servers, "bob@web-2")
	return s, err
}

// end closes them. What was on its way to a node that was killed counts as unknown for one TTL, and
// Close says so; the story has looked at the nodes themselves.
func (s *story) end() { _, _ = s.alice.Close(), s.bob.Close() }

func urls(servers redlocktest.Nodes) (urls []string) {
	for _, addr := range servers.Addrs() {
		urls = append(urls, "redis://"+addr)
	}
	return urls
}

// connect makes a client of its own for the servers, which has the story's names for
// them.
func connect(open func(urls ...string) ([]driver.Node, error), servers redlocktest.Nodes, owner string) (*redlock.Locker, error) {
	nodes, err := open(urls(servers)...)
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
