package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	key = "examples:fencing"
	// ready is what a worker says who has looked at its lock for the last time, and goes
	// to write.
	ready = "lock.Valid() is true: goes to write"
	// patience is how long a worker waits for the lock.
	patience = time.Minute
)

// A worker is what one process does: it pays something into the account, under the lock.
type worker struct {
	out     io.Writer
	deposit int
	ttl     time.Duration
	noFence bool
}

func (w worker) run(ctx context.Context, client string, urls []string, kind, place string) (err error) {
	account, err := open(kind, place, urls)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, account.Close()) }()
	if _, err := account.balance(ctx); err != nil { // the first look takes longest, so it is not under the lock
		return err
	}
	list, err := nodes.Connect(client, urls)
	if err != nil {
		return err
	}
	options := []redlock.Option{
		redlock.WithTTL(w.ttl),
		redlock.WithNodeTimeout(w.ttl / 2), // the nodes and all processes share a machine that may be busy
	}
	if !w.noFence {
		options = append(options, redlock.WithFences())
	}
	locker, err := redlock.New(list, options...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	for done := false; !done && err == nil; {
		done, err = w.pay(ctx, locker, account)
	}
	return err
}

// pay pays in once, and reports false if the lease was over before it came to that.
func (w worker) pay(ctx context.Context, locker *redlock.Locker, account store) (done bool, err error) {
	began := time.Now()
	lock, err := locker.Acquire(ctx, key, redlock.WithMaxWait(patience))
	if err != nil {
		return false, err
	}
	defer func() {
		if released := lock.Release(context.WithoutCancel(ctx)); errors.Is(released, redlock.ErrLost) {
			w.say("is told at its release: %v", redlock.ErrLost)
		} else {
			err = errors.Join(err, released)
		}
	}()
	w.say("has the lock after %v, and %s", time.Since(began).Round(time.Millisecond), w.fence(lock))
	balance, err := account.read(ctx, lock.Fence())
	if err != nil {
		return false, err
	}
	w.say("reads %d", balance)
	if !lock.Valid() {
		return false, nil // begin again
	}
	w.say(ready)
	// Whatever stops a process may stop it here, for any time. That the parent answers
	// pins the moment down.
	if err := w.hear(); err != nil {
		return false, err
	}
	// With the lock's context, which has ended, this write would most likely not leave any
	// more. That helps as long as the pause is not one line further down.
	balance += w.deposit
	err = account.write(ctx, balance, lock.Fence())
	if stale := (*fence.StaleError)(nil); errors.As(err, &stale) {
		w.say("wants to write %d, and is refused: its fence %d meets %d", balance, stale.Offered, stale.Last)
		return true, nil
	}
	if err == nil {
		w.say("has written %d", balance)
	}
	return true, err
}

func (w worker) fence(lock *redlock.Lock) string {
	if w.noFence {
		return "no fence"
	}
	return fmt.Sprintf("the fence %d", lock.Fence())
}

// say tells the parent a line.
func (w worker) say(format string, args ...any) { _, _ = fmt.Fprintf(w.out, format+"\n", args...) }

// hear waits for the parent's answer.
func (w worker) hear() error {
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}
