// Package fault holds the errors of a lock and its nodes, in words: errors that the layers of the library
// share, what to do about a server's refusal, and events for operators. Package redlock makes them public.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The errors that callers test for. Package redlock documents them.
var (
	ErrTaken      = errors.New("taken by another")
	ErrContended  = errors.New("contended: nobody got it")
	ErrNoQuorum   = errors.New("no quorum")
	ErrExpired    = errors.New("the votes came after the lease had run out")
	ErrLost       = errors.New("lock lost")
	ErrReleased   = errors.New("lock released")
	ErrDeadlock   = errors.New("deadlock")
	ErrClosed     = errors.New("locker closed")
	ErrOption     = errors.New("bad option")
	ErrFence      = errors.New("no fence")
	ErrQuarantine = errors.New("in quarantine")
	ErrNodeSet    = errors.New("another node set")
	ErrNode       = errors.New("unfit node")
	ErrPermits    = errors.New("another number of permits")
	ErrBusy       = errors.New("too many acquires at a time")
)

// A StateError is an operation that was no longer possible, or not yet.
type StateError struct {
	Op, Key string
	Why     error
}

func (e *StateError) Error() string { return fmt.Sprintf("redlock: %s %q: %v", e.Op, e.Key, e.Why) }

// Unwrap returns the cause.
func (e *StateError) Unwrap() error { return e.Why }

// A SilenceError is a node without an answer in time. After is how long the node was asked. It does not
// match the context's errors: those tell of the caller's context.
type SilenceError struct {
	After time.Duration
	First bool // the node has never answered
}

func (e *SilenceError) Error() string {
	text := fmt.Sprintf("no answer within %v: see whether the node is up and can be reached", e.After.Round(10*time.Microsecond))
	if e.First {
		text += ", and whether it speaks TLS at this port (rediss://) or not (redis://)"
	}
	return text
}

// Timeout makes the error a time-out by the rule of package net.
func (*SilenceError) Timeout() bool { return true }

// Name returns the name of a value that counts from 0.
func Name[T ~uint8](value T, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("unknown (%d)", value)
}

// EndOf says that ctx has ended, and why.
func EndOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
