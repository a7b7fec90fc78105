package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/redlock"
)

const key = "examples:counter"

// An adder is what one process does.
type adder struct {
	number            number
	goroutines, times int
	noLock            bool
	between           func(context.Context) error
}

func (a adder) run(ctx context.Context, client string, urls []string) (err error) {
	list, err := nodes.Connect(client, urls)
	if err != nil {
		return err
	}
	// The nodes and all processes share a machine that may be busy.
	locker, err := redlock.New(list, redlock.WithNodeTimeout(2*time.Second))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()

	failures := make([]error, a.goroutines)
	var group sync.WaitGroup
	for i := range failures {
		writer := fmt.Sprintf("%d.%d", os.Getpid(), i)
		group.Go(func() { failures[i] = a.add(ctx, locker, writer) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// add is what one goroutine does. The lock's context ends with the lock, and nothing
// is written after that.
func (a adder) add(ctx context.Context, locker *redlock.Locker, writer string) error {
	increment := func(ctx context.Context) error { return a.number.increment(ctx, writer, a.between) }
	for range a.times {
		var err error
		if a.noLock {
			err = increment(ctx)
		} else {
			err = locker.Do(ctx, key, increment)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
