package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/redlock"
)

// callbacks are a process's functions that the library calls. They do nothing, or they block, or
// panic.
type callbacks struct {
	blocked sync.RWMutex
	panics  atomic.Uint64 // counts the calls, if it is not 0
}

// block has those block that the library calls from its own goroutines: a caller may block itself.
func (c *callbacks) block() (end func()) {
	c.blocked.Lock()
	return c.blocked.Unlock
}

// panic has one call in eight panic.
func (c *callbacks) panic() (end func()) {
	c.panics.Store(1)
	return func() { c.panics.Store(0) }
}

// errPanicked is what a callback panics with.
var errPanicked = errors.New("a callback panics")

func (c *callbacks) mayPanic() {
	if n := c.panics.Load(); n > 0 && c.panics.CompareAndSwap(n, n+1) && n%8 == 0 {
		panic(errPanicked)
	}
}

// tell is called from the library's own goroutines.
func (c *callbacks) tell() {
	c.blocked.RLock()
	defer c.blocked.RUnlock()
	c.mayPanic()
}

// Write is a log that nobody reads.
func (c *callbacks) Write(line []byte) (int, error) {
	c.blocked.RLock()
	defer c.blocked.RUnlock()
	return len(line), nil
}

// options set all of them.
func (c *callbacks) options() []redlock.Option {
	return []redlock.Option{
		redlock.WithHooks(redlock.Hooks{Node: func(redlock.Event) { c.tell() }}),
		redlock.WithHooks(redlock.LogTo(slog.New(slog.NewTextHandler(c, nil)))),
		redlock.WithHooks(redlock.Hooks{
			AcquireStart: func(ctx context.Context, _ redlock.AcquireStart) context.Context { c.mayPanic(); return ctx },
			AcquireEnd:   func(context.Context, redlock.AcquireEnd) { c.mayPanic() },
			HoldEnd:      func(context.Context, redlock.HoldEnd) { c.tell() },
			ExtendEnd: func(_ context.Context, e redlock.ExtendEnd) {
				if e.Renewal {
					c.tell()
				}
			},
			Batch: func(redlock.NodeBatch) { c.tell() },
		}),
	}
}

// guarded makes a panic of a callback on the caller's own goroutine an error, as a server does.
func guarded[L any](call func() (L, error)) (got L, err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case errPanicked:
			err = errPanicked
		default:
			panic(p)
		}
	}()
	return call()
}
