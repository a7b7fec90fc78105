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

const key = "examples:licences"

// A worker does jobs, each with a licence. It shares nothing with the others but the nodes and the
// licences.
type worker struct {
	connect     func() ([]driver.Node, error)
	pool        *pool
	jobs        int
	job         time.Duration
	noSemaphore bool
}

// together lets so many workers do their jobs.
func together(ctx context.Context, workers int, w worker) error {
	failures := make([]error, workers)
	var group sync.WaitGroup
	for i := range failures {
		group.Go(func() {
			if err := w.run(ctx); err != nil {
				failures[i] = fmt.Errorf("worker %d: %w", i+1, err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// run has a Locker of its own, as a worker on a machine of its own has.
func (w worker) run(ctx context.Context) (err error) {
	list, err := w.connect()
	if err != nil {
		return err
	}
	// The nodes and all workers share a machine that may be busy. The renewal keeps the permit for
	// as long as a job takes, and a worker that dies gives its licence back after one TTL.
	locker, err := redlock.New(list, redlock.WithNodeTimeout(2*time.Second), redlock.WithRenewal())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	semaphore, err := locker.Semaphore(key, w.pool.size())
	if err != nil {
		return err
	}
	do := w.withPermit
	if w.noSemaphore {
		do = w.withWhatIsFree
	}
	for range w.jobs {
		if err := do(ctx, semaphore); err != nil {
			return err
		}
	}
	return nil
}

// withPermit does a job with the licence that the permit is for.
func (w worker) withPermit(ctx context.Context, semaphore *redlock.Semaphore) (err error) {
	permit, err := semaphore.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, permit.Release(context.WithoutCancel(ctx))) }()
	return w.with(permit.Context(), permit.Slot()) //nolint:contextcheck // it descends from ctx
}

// withWhatIsFree does a job with a licence that nobody used a moment ago.
func (w worker) withWhatIsFree(ctx context.Context, _ *redlock.Semaphore) error {
	for {
		licence, ok := w.pool.look()
		if err := wait(ctx, time.Millisecond); err != nil { // the way from the list of licences and back
			return err
		}
		if ok {
			return w.with(ctx, licence)
		}
	}
}

// with does a job with the licence.
func (w worker) with(ctx context.Context, licence int) error {
	w.pool.use(licence)
	defer w.pool.leave(licence)
	return wait(ctx, w.job)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
