package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// A job is done under the lock on key.
type job struct {
	log  *log.Logger
	key  string
	step time.Duration
}

const steps = 3

// run does the job, once nobody else does it.
func (j job) run(ctx context.Context, locker *redlock.Locker, wait time.Duration) (err error) {
	lock, err := locker.Acquire(ctx, j.key, redlock.WithMaxWait(wait))
	switch {
	case errors.Is(err, redlock.ErrTaken):
		return fmt.Errorf("somebody else is doing this job, so there is nothing to do here: %w", err)
	case errors.Is(err, redlock.ErrNoQuorum):
		return fmt.Errorf("nobody can say whether this job is free until more nodes answer: %w", err)
	case err != nil:
		return err
	}
	defer func() {
		// Not under ctx, which may have ended: the key should go back all the same.
		released := lock.Release(context.WithoutCancel(ctx))
		if released == nil {
			j.log.Printf("%s: released", j.key)
		}
		err = errors.Join(err, released)
	}()
	j.log.Printf("%s: locked for %v", j.key, left(lock))
	return j.work(lock.Context(), lock) //nolint:contextcheck // the lock's context descends from ctx
}

// work does the steps. Its ctx is the lock's own, which ends with the lease, so that
// no step goes on without protection.
func (j job) work(ctx context.Context, lock *redlock.Lock) error {
	for step := 1; ; step++ {
		select {
		case <-time.After(j.step): // in place of work that takes a context
		case <-ctx.Done():
			return fmt.Errorf("stopped in step %d: %w", step, context.Cause(ctx))
		}
		j.log.Printf("%s: step %d of %d done", j.key, step, steps)
		if step == steps {
			return nil
		}
		err := lock.Extend(ctx, lease)
		switch {
		case err == nil:
			j.log.Printf("%s: locked for another %v", j.key, left(lock))
		case errors.Is(err, redlock.ErrLost):
			return fmt.Errorf("stopped after step %d: %w", step, err)
		default:
			// The lease that runs is still good: ctx ends with it, and the next step is
			// followed by another try.
			j.log.Printf("%s: still locked for %v: %v", j.key, left(lock), err)
		}
	}
}

func left(lock *redlock.Lock) time.Duration {
	return time.Until(lock.Until()).Round(10 * time.Millisecond)
}
