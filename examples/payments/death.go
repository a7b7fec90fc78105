package main

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/driver"
)

// A moment in the work on an order.
type moment string

const (
	never           moment = "never"
	beforeTheCharge moment = "before the charge"
	afterTheCharge  moment = "after the charge"
)

// doom waits for the first worker in a moment.
type doom struct {
	at   moment
	done atomic.Bool
}

// reach says that the worker has come to a moment, which may be its last: then
// nothing of what follows in its code happens, and nobody hears of it again, as if
// its machine had crashed. Its lease is neither renewed nor given back.
func (w *worker) reach(order string, now moment) {
	if w.doom.at == now && w.doom.done.CompareAndSwap(false, true) {
		w.dead.Store(true)
		w.say(order, "dies "+string(now))
		runtime.Goexit()
	}
}

// A cable leads from a worker to a node for as long as the worker lives.
type cable struct {
	driver.Driver
	dead *atomic.Bool
}

var errDead = errors.New("the worker is dead")

func (c cable) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if c.dead.Load() {
		return nil, driver.NotSent(errDead)
	}
	return c.Driver.Do(ctx, cmds)
}

// Close is called by the Locker.
func (c cable) Close() error {
	if own, ok := c.Driver.(io.Closer); ok {
		return own.Close()
	}
	return nil
}
