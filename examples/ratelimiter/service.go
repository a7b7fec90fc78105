package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
)

const key = "examples:ratelimiter"

// A service calls as often as it may. It shares nothing with the others but the nodes
// and the window; the journal only watches.
type service struct {
	connect func() ([]driver.Node, error)
	window  window
	noLock  bool
	made    *journal
}

// together lets so many services run until then.
func together(ctx context.Context, services int, s service, until time.Time) error {
	failures := make([]error, services)
	var group sync.WaitGroup
	for i := range failures {
		group.Go(func() {
			if err := s.run(ctx, strconv.Itoa(i+1), until); err != nil {
				failures[i] = fmt.Errorf("service %d: %w", i+1, err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// run has a Locker of its own, as a service on a machine of its own has.
func (s service) run(ctx context.Context, name string, until time.Time) (err error) {
	list, err := s.connect()
	if err != nil {
		return err
	}
	// The nodes and all services share a machine that may be busy.
	locker, err := redlock.New(list, redlock.WithNodeTimeout(2*time.Second))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()

	for time.Now().Before(until) {
		at, wait, err := s.ask(ctx, locker, name)
		if err != nil {
			return err
		}
		if wait == 0 {
			s.made.add(at) // here the service would make its call
			continue
		}
		select {
		case <-time.After(min(wait, time.Until(until))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// ask asks for a call, at the time that it returns.
func (s service) ask(ctx context.Context, locker *redlock.Locker, name string) (at time.Time, wait time.Duration, err error) {
	take := func(ctx context.Context) error {
		// Not before the lock is there, so that the window is in the order of time; and
		// the wall clock's, which is all that a file can keep.
		at = time.Now().Round(0)
		wait, err = s.window.take(ctx, at, name)
		return err
	}
	if s.noLock {
		err = take(ctx)
	} else {
		err = locker.Do(ctx, key, take)
	}
	return at, wait, err
}
