package redlock

import (
	"context"
	"fmt"
	"time"
)

// A heldContext is the context of a hold. A timer ends it at the deadline. The timer is late where the
// process was stopped, the machine has slept or no CPU is free: Err and Done compare the clock as well.
// Derived contexts end with it.
//
// Package context finds the embedded context by Value and Done, and derives from that context: no goroutine
// is started.
type heldContext struct {
	context.Context       //nolint:containedctx // ends with the hold
	lock            *Lock // for [FromContext]
}

// Err says whether the hold is over by now.
func (c *heldContext) Err() error {
	c.look()
	return c.Context.Err()
}

// Done is closed if the hold is over by now.
func (c *heldContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// Value is the embedded context's, or the lock.
func (c *heldContext) Value(key any) any {
	if _, ok := key.(lockKey); ok {
		return c.lock
	}
	return c.Context.Value(key)
}

// String names the lock's key.
func (c *heldContext) String() string { return fmt.Sprintf("%v.Lock(%q)", c.Context, c.lock.Key()) }

// look ends the context if the deadline of its hold has passed.
func (c *heldContext) look() {
	if l := c.lock.lease; c.Context.Err() == nil && l.locker.clock.Fresh() >= l.hold.Deadline() {
		_, _ = l.hold.Over() // Over ends the context
	}
}

// Context returns a context with the values of the one given to Acquire, which ends with the lease, or just
// before a release is sent; of [Locker.Do] also with the caller's context. A timer ends it, which is late
// where the process was stopped: its Err and Done, but not those of derived contexts, also compare the clock.
// context.Cause says why: [ErrLost], [ErrReleased] or [ErrClosed]. Give it to all work that the lock protects.
func (l *Lock) Context() context.Context {
	left := l.hold.Left()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx = &heldContext{lock: l}
		l.ctx.Context, l.cancel = context.WithCancelCause(l.parent)
		if l.over != nil {
			l.cancel(l.over)
		} else {
			l.timer = time.AfterFunc(left, l.expire)
		}
	}
	return l.ctx
}

// expire is called by the timer. The lease may have been extended since.
func (l *lease) expire() { l.arm(l.hold.Left()) }

// arm makes the timer end the context after the rest of the lease, if there are both.
func (l *lease) arm(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil && l.over == nil {
		l.timer.Reset(left)
	}
}
