package redlock

import (
	"context"
	"fmt"
	"time"
)

// A heldContext is the context of a hold, or of a view of it. A timer ends it at the deadline. That
// one is late where the process was stopped, the machine has slept or no CPU is free, so whoever
// asks the context compares the clock as well. What was derived from it ends with it.
//
// Package context finds the context that it embeds by Value and Done, and derives from that one: no
// goroutine is started.
type heldContext struct {
	context.Context //nolint:containedctx // it is one: ends with the hold, or with what it descends from
	cancel          context.CancelCauseFunc
	lock            carried // what [FromContext] finds
}

// under makes a context that descends from parent and carries lock.
func under(parent context.Context, lock carried) *heldContext {
	c := &heldContext{lock: lock}
	c.Context, c.cancel = context.WithCancelCause(parent)
	return c
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

// Value is that of the context, or the lock.
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
	l := c.lock.body()
	if c.Context.Err() != nil || l.locker.clock.Fresh() < l.hold.Deadline() {
		return
	}
	if ended, cause := l.hold.Over(); ended != nil {
		c.cancel(cause) // a view may not descend from the hold's context
	}
}

// Context returns the hold's own context.
func (l *lease) Context() context.Context {
	left := l.hold.Left()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx = under(l.hold.Parent, l.public)
		if l.over != nil {
			l.ctx.cancel(l.over)
		} else {
			l.timer = time.AfterFunc(left, l.expire)
		}
	}
	return l.ctx
}

// expire is called by the timer. The lease may have been extended since.
func (l *lease) expire() { l.arm(l.hold.Left()) }

// arm lets the timer end the context after what is left of the lease, if there are both.
func (l *lease) arm(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx != nil && l.over == nil {
		l.timer.Reset(left)
	}
}
