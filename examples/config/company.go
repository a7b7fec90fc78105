package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
)

const key = "examples:config"

// What a step on one file takes, and how long the operator leaves a version alone.
const (
	step   = 5 * time.Millisecond
	change = 200 * time.Millisecond
)

// A company is services that read a configuration and an operator who changes it. They share
// nothing but the nodes and the files; the journal only watches.
type company struct {
	connect func() ([]driver.Node, error)
	files   files
	noLock  bool
	seen    *journal
	until   time.Time
}

// work lets so many services and the operator work until their time is over.
func (c *company) work(ctx context.Context, services int) error {
	if err := c.files.write(ctx, 1); err != nil {
		return err
	}
	failures := make([]error, services+1)
	var group sync.WaitGroup
	for i := range services {
		group.Go(func() { failures[i] = c.each(ctx, fmt.Sprintf("service %d", i+1), c.read) })
	}
	version := 1
	group.Go(func() {
		failures[services] = c.each(ctx, "operator", func(ctx context.Context, locker *redlock.Locker) error {
			version++
			return c.change(ctx, locker, version)
		})
	})
	group.Wait()
	return errors.Join(failures...)
}

// each does something again and again, with a Locker of its own, as a service on a machine of its
// own has.
func (c *company) each(ctx context.Context, name string, do func(context.Context, *redlock.Locker) error) (err error) {
	list, err := c.connect()
	if err != nil {
		return err
	}
	// The nodes and all services share a machine that may be busy.
	locker, err := redlock.New(list, redlock.WithNodeTimeout(2*time.Second))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	for time.Now().Before(c.until) {
		if err := do(ctx, locker); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// read reads the configuration once, together with other services. The lock's context ends with the
// lock, and nothing is read after that.
func (c *company) read(ctx context.Context, locker *redlock.Locker) error {
	if c.noLock {
		return c.look(ctx)
	}
	lock, err := locker.AcquireShared(ctx, key)
	if err != nil {
		return err
	}
	err = c.look(lock.Context()) //nolint:contextcheck // the lock's context descends from ctx
	return errors.Join(err, lock.Release(context.WithoutCancel(ctx)))
}

// look reads the files, and tells the journal.
func (c *company) look(ctx context.Context) error {
	c.seen.begins()
	address, password, err := c.files.read(ctx)
	if err == nil {
		c.seen.read(address, password)
	}
	return err
}

// change writes another version of the configuration, alone.
func (c *company) change(ctx context.Context, locker *redlock.Locker, version int) error {
	write := func(ctx context.Context) error { return c.files.write(ctx, version) }
	var err error
	if c.noLock {
		err = write(ctx)
	} else {
		err = locker.Do(ctx, key, write)
	}
	if err != nil {
		return err
	}
	c.seen.changed()
	return pause(ctx, change)
}

// pause takes some time, in place of what a program does between two steps.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
