package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// An operator looks on while the story goes on: it runs "quorumlock status --watch", whose pages
// are shown as they are.
type operator struct {
	command *exec.Cmd
	pages   chan []string
}

// look starts the command.
func look(path string, urls []string) (*operator, error) {
	o := &operator{
		command: exec.Command(path, "status", "--watch=200ms", "--node-timeout=2s", "--nodes", strings.Join(urls, ",")), //nolint:gosec,noctx // the command that the caller names, until leave
		pages:   make(chan []string),
	}
	out, err := o.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := o.command.Start(); err != nil {
		return nil, err
	}
	go o.read(out)
	return o, nil
}

// read splits what is printed into pages, which empty lines divide, and keeps the last one for who
// comes.
func (o *operator) read(out io.Reader) {
	defer close(o.pages)
	var page []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() != "" {
			page = append(page, lines.Text())
			continue
		}
		select {
		case o.pages <- page:
		default: // nobody looks at the moment
		}
		page = nil
	}
}

// sees waits for a page that shows what is wanted.
func (o *operator) sees(what string) ([]string, error) {
	wanted := regexp.MustCompile(what)
	late := time.After(lease)
	var last []string
	for {
		select {
		case page, ok := <-o.pages:
			if !ok {
				return nil, errors.New("quorumlock status has ended")
			}
			if wanted.MatchString(strings.Join(page, "\n")) {
				return page, nil
			}
			last = page
		case <-late:
			return nil, fmt.Errorf("quorumlock status does not show %q but\n%s", what, strings.Join(last, "\n"))
		}
	}
}

// leave ends the command.
func (o *operator) leave() {
	_ = o.command.Process.Kill()
	for range o.pages { // until it has ended
	}
	_ = o.command.Wait() // it was killed
}

// act is the second one, in which an operator looks on.
func (s *story) act() []step {
	var bobs *redlock.Lock
	failed := make(chan error, 1)
	return []step{
		{"An operator sees who holds the lock", func() (err error) {
			if s.lock, err = s.alice.Acquire(context.Background(), key); err != nil {
				return err
			}
			go func() {
				var err error
				bobs, err = s.bob.Acquire(context.Background(), key, redlock.WithMaxWait(lease))
				failed <- err
			}()
			s.say("Alice has taken the lock again, and Bob waits for it. An operator runs %s, which prints such a page again and again. A column for each node has ● where the holder has the node's vote.", caption)
			return s.show(`alice.*● ● ● ● ●  held`)
		}},
		{"Two nodes are killed, and nothing happens", func() error {
			s.servers[0].Stop()
			s.servers[1].Stop()
			return s.show(`alice.*\? \? .*  held`)
		}},
		{"They come back, with their keys", func() error {
			if err := errors.Join(s.servers[0].Start(), s.servers[1].Start()); err != nil {
				return err
			}
			return s.show(`alice.*● ● ● ● ●  held`)
		}},
		{"Alice releases the lock, and Bob has it", func() error {
			if err := s.lock.Release(); err != nil {
				return err
			}
			if err := <-failed; err != nil {
				return err
			}
			// Bob may have asked a node before the release came there. Then he gets its vote as he extends the lock.
			err := wait("Bob has not all votes", func() bool {
				return bobs.Extend(context.Background(), lease) == nil &&
					!slices.ContainsFunc(s.servers, func(server *redlocktest.Node) bool { token, _ := server.Get(key); return token != bobs.Token() })
			})
			if err != nil {
				return err
			}
			return errors.Join(s.show(`bob.*● ● ● ● ●  held`), bobs.Release())
		}},
	}
}

// show prints the first page that shows what is wanted.
func (s *story) show(what string) error {
	page, err := s.operator.sees(what)
	for _, line := range page {
		s.log.Println("| " + line)
	}
	return err
}
