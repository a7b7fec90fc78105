package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

const (
	philosophers = 5
	meals        = 2
	bite         = 20 * time.Millisecond
	patience     = 3 * time.Second // after which one who waits for a fork gives up
)

// A table is where they dine.
type table struct {
	log       *log.Logger
	locker    *redlock.Locker
	noContext bool

	eaten     [philosophers]atomic.Int32
	deadlocks atomic.Int32
}

// dine ends when all have eaten, or when one waits in vain.
func (t *table) dine(ctx context.Context) error {
	failures := make([]error, philosophers)
	var all sync.WaitGroup
	for i := range philosophers {
		all.Go(func() { failures[i] = t.philosopher(ctx, i) })
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	t.log.Printf("all have eaten %d times; %d deadlocks were found and given up", meals, t.deadlocks.Load())
	return nil
}

// philosopher eats so often. A deadlock is no failure: he puts his fork down, and takes it again.
func (t *table) philosopher(ctx context.Context, i int) error {
	name := fmt.Sprintf("philosopher %d", i+1)
	for range meals {
		for {
			err := t.eat(ctx, i, name)
			if err == nil {
				break
			}
			if !errors.Is(err, redlock.ErrDeadlock) {
				return fmt.Errorf("%s starves: %w", name, err)
			}
			t.deadlocks.Add(1)
			t.log.Printf("%s puts his fork down: %v", name, err)
		}
	}
	return nil
}

// eat takes the left fork, and then the right one.
func (t *table) eat(ctx context.Context, i int, name string) error {
	options := []redlock.AcquireOption{redlock.WithOwner(name), redlock.WithMaxWait(patience)}
	left, err := t.locker.Acquire(ctx, fork(i), options...)
	if err != nil {
		return err
	}
	defer func() { _ = left.Release(context.WithoutCancel(ctx)) }()
	under := ctx //nolint:contextcheck // what is taken under it descends from ctx
	if !t.noContext {
		under = left.Context() // the holder of the left fork takes what is taken under it
	}
	time.Sleep(bite) // everybody has his left fork by then
	right, err := t.locker.Acquire(under, fork(i+1), options...)
	if err != nil {
		return err
	}
	defer func() { _ = right.Release(context.WithoutCancel(ctx)) }()
	t.log.Printf("%s eats", name)
	time.Sleep(bite)
	t.eaten[i].Add(1)
	return nil
}

func fork(i int) string { return fmt.Sprintf("fork %d", i%philosophers+1) }
