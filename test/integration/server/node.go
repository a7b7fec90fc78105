// Package server runs the nodes that tests and benchmarks lock on: one interface to
// nodes that can be harmed, and local server processes behind it. Containers are in
// package container, so that who needs processes only does not build a Docker client.
package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// Node is one server that tests may harm. Its methods return when the harm is done,
// and are called by one goroutine at a time.
type Node interface {
	// Addr is where clients reach it: "127.0.0.1:port". It stays the same for life.
	Addr() string
	// Kill ends it at once, as a crash would: its port refuses from then on.
	Kill() error
	// Start starts a killed node again, and returns when it answers. It remembers
	// what its disk holds: nothing, unless its arguments turn persistence on.
	Start() error
	// Pause freezes it: it accepts connections and says nothing.
	Pause() error
	// Continue lets a paused node go on. It runs what lies in its buffers.
	Continue() error
	// Close ends it for good and removes what it left.
	Close() error
}

// startTimeout bounds how long a server may take until it answers.
const startTimeout = time.Minute

// Await returns when the server at addr answers PING and has loaded its data.
func Await(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		// One answer may be lost: Docker's port proxy accepts before the server does.
		_, err := do(ctx, addr, time.Second, "PING")
		var refusal *driver.ServerError
		if err == nil || errors.As(err, &refusal) && refusal.Code != "LOADING" {
			return nil // also NOAUTH: it is there, and wants a password
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %w", addr, context.Cause(ctx), err)
		case <-time.After(time.Millisecond): // a refused dial returns at once
		}
	}
}

// answerTimeout bounds one command.
const answerTimeout = time.Minute

// Do sends one command over a connection of its own, and returns the answer: an
// array's elements in lines of their own, and nil as "". What the server refuses is
// the error.
func (p *Process) Do(words ...string) (string, error) { return Do(p.Addr(), words...) }

// Do is [Process.Do] for any server.
func Do(addr string, words ...string) (string, error) {
	answer, err := do(context.Background(), addr, answerTimeout, words...)
	if err != nil {
		return "", fmt.Errorf("%s at %s: %w", words[0], addr, err)
	}
	return answer, nil
}

func do(ctx context.Context, addr string, timeout time.Duration, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reply, err := redisserver.Ask(ctx, addr, words...)
	if err != nil {
		return "", err
	}
	return text(reply), reply.Err()
}

// text shows a reply: an array's elements in lines of their own, and nil as "".
func text(reply driver.Reply) string {
	switch reply.Kind {
	case driver.Integer:
		return strconv.FormatInt(reply.Int, 10)
	case driver.Array:
		lines := make([]string, len(reply.Elems))
		for i, elem := range reply.Elems {
			lines[i] = text(elem)
		}
		return strings.Join(lines, "\n")
	}
	return reply.Str
}
