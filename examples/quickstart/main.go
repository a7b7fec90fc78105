// Quickstart does a job of three steps under a lock, so that it runs once at a time, wherever it is
// started: the lock, work under its context, longer leases, and what to do about each error.
//
//	go run ./quickstart
//	go run ./quickstart -nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 -client rueidis
//
// Over servers of your own, run it in two terminals with -step 5s: the second one is refused. With
// -wait 20s it waits for the first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	key   = "orders:42"
	steps = 3
	lease = 10 * time.Second // far longer than a step of the job, which extends it after each
)

var (
	wait = flag.Duration("wait", time.Second, "how long to wait for somebody else who has the lock")
	step = flag.Duration("step", 500*time.Millisecond, "how long each of the three steps takes")
)

func main() { program.Main(run) }

// job does the job, once nobody else does it.
func job(ctx context.Context, s program.Stage, locker *redlock.Locker) error {
	began := false
	err := locker.Do(ctx, key, func(ctx context.Context) error {
		began = true
		lock := redlock.FromContext(ctx)
		s.Printf("Locked: for %v nobody else starts it.", left(lock))
		return work(ctx, s, lock)
	}, redlock.WithMaxWait(*wait))
	switch {
	case errors.Is(err, redlock.ErrTaken):
		return fmt.Errorf("somebody else is doing this job, so there is nothing to do here: %w", err)
	case !began && errors.Is(err, redlock.ErrNoQuorum):
		return fmt.Errorf("nobody can say whether this job is free until more nodes answer: %w", err)
	case err == nil:
		s.Println("Released: somebody else can lock it now.")
	}
	return err
}

// work does the steps. Its ctx ends with the lease, so that no step goes on without protection, and
// with the program.
func work(ctx context.Context, s program.Stage, lock *redlock.Lock) error {
	for n := 1; ; n++ {
		select {
		case <-time.After(*step): // in place of work that takes a context
		case <-ctx.Done():
			return fmt.Errorf("stopped in step %d: %w", n, context.Cause(ctx))
		}
		s.Printf("Step %d of %d is done.", n, steps)
		if n == steps {
			return nil
		}
		switch err := lock.Extend(ctx, lease); {
		case err == nil:
			s.Printf("Extended: nobody else starts it for another %v.", left(lock))
		case errors.Is(err, redlock.ErrLost):
			return fmt.Errorf("stopped after step %d: %w", n, err)
		default: // the lease that runs is still good, and the next step is followed by another try
			s.Printf("Not extended, but still locked for %v: %v", left(lock), err)
		}
	}
}

func left(lock *redlock.Lock) time.Duration {
	return time.Until(lock.Until()).Round(10 * time.Millisecond)
}

func run(ctx context.Context, s program.Stage) (err error) {
	nodes, err := s.Connect()
	if err != nil {
		return err
	}
	locker, err := redlock.New(nodes,
		redlock.WithTTL(lease),
		redlock.WithoutRenewal(), // the job extends its lease after each step, and so loses it where it hangs

		redlock.WithHooks(redlock.Hooks{Node: func(event redlock.Event) {
			if event.Kind != redlock.NodeUp || event.Lasted > 0 {
				s.Println(event)
			}
		}}),
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	s.Printf("The job %s has %d steps, and must not run twice at a time.", key, steps)
	return job(ctx, s, locker)
}
