// Package server runs the nodes that tests and benchmarks lock on: one interface to
// nodes that can be harmed, and local server processes behind it. Containers are in
// package container, so that who needs processes only does not build a Docker client.
package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
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
const startTimeout = 30 * time.Second

// Await returns when the server at addr answers PING and has loaded its data.
func Await(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		// One answer may be lost: Docker's port proxy accepts before the server does.
		_, err := do(ctx, addr, time.Second, "PING")
		var refusal refusalError
		if err == nil || errors.As(err, &refusal) && !strings.HasPrefix(err.Error(), "LOADING") {
			return nil // also NOAUTH: it is there, and wants a password
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %w", addr, context.Cause(ctx), err)
		case <-time.After(time.Millisecond): // a refused dial returns at once
		}
	}
}
