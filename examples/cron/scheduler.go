package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// grace is how late a scheduler may still run a tick. One that was asleep leaves
	// it alone: it cannot know whether the key has been there and gone.
	grace = 250 * time.Millisecond
	// hold is how long a tick stays taken: for longer than the clocks differ, the
	// grace and the time-out of a node together, so that no scheduler finds a tick
	// free that another has taken.
	hold = time.Second

	work = 50 * time.Millisecond
)

// A scheduler runs the report at every tick that no other has taken. Each has a
// Locker and a clock of its own, as on a machine of its own.
type scheduler struct {
	*cron
	name   string
	ahead  time.Duration
	locker *redlock.Locker
	last   *redlock.Lock // of the latest tick that it has taken
}

func (s *scheduler) run(ctx context.Context, first time.Time) (err error) {
	if !s.noLock {
		list, err := s.connect()
		if err != nil {
			return err
		}
		if s.locker, err = redlock.New(list, redlock.WithTTL(hold)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
	}
	for i := range ticks {
		tick := first.Add(time.Duration(i) * period)
		if err := sleep(ctx, tick.Sub(s.now())); err != nil {
			return err
		}
		switch err := s.tick(ctx, tick); {
		case errors.Is(err, errDead):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// stop closes the Locker, which gives back what is still held. So it waits for the
// lease to end: a scheduler whose clock is behind may have yet to come to this tick.
func (s *scheduler) stop() error {
	if s.last != nil {
		time.Sleep(time.Until(s.last.Until()))
	}
	return s.locker.Close()
}

// tick runs the report, unless another scheduler has taken the tick.
func (s *scheduler) tick(ctx context.Context, tick time.Time) error {
	if s.noLock {
		return s.report(ctx, tick)
	}
	late := s.now().Sub(tick)
	if late > grace {
		s.log.Printf("%s: %s comes %v late, and leaves the tick alone", clock(tick), s.name, late)
		return nil
	}
	// Not TryAcquire: where several ask at the same moment it may end with ErrContended, and
	// then the tick would be nobody's. An Acquire goes on for as long as the tick may be late.
	lock, err := s.locker.Acquire(ctx, fmt.Sprintf("cron:report:%d", tick.Unix()), redlock.WithMaxWait(grace-late))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, redlock.ErrTaken):
		return nil // another runs it, or has run it
	case err != nil:
		s.log.Printf("%s: %s cannot know whether the tick is free, and leaves it alone: %v", clock(tick), s.name, err)
		return nil
	}
	// There is no release, for others may have yet to come to this tick.
	s.last = lock
	return s.report(lock.Context(), tick) //nolint:contextcheck // the lock's context descends from ctx
}

var errDead = errors.New("the scheduler is dead")

// report is the work. The journal has a note before it and one behind.
func (s *scheduler) report(ctx context.Context, tick time.Time) error {
	s.journal.begin(tick, s.name)
	s.log.Printf("%s: %s begins the report", clock(tick), s.name)
	if err := sleep(ctx, work/2); err != nil {
		return err
	}
	if tick.Equal(s.fatal) && s.died.CompareAndSwap(false, true) {
		s.log.Printf("%s: %s dies over it", clock(tick), s.name)
		return errDead
	}
	if err := sleep(ctx, work/2); err != nil {
		return err
	}
	s.journal.end(tick, s.name)
	return nil
}

// now is what the scheduler takes for the time.
func (s *scheduler) now() time.Time { return time.Now().Add(s.ahead) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
