// Package gocronlock lets several processes with the same gocron schedule run each job once.
//
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlock.New(locker)))
//
// gocron takes the lock on a job's name ([gocron.WithName]) before a run, and skips the run where another process has the
// lock. gocron does not tell the job that its lock is lost: let the job work under [Locker.Context].
//
// A run that is over before another process's clock reaches the same tick leaves the key free, and the job would run
// twice. [Locker.KeepFor] keeps the key.
package gocronlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/redlock"
)

// Locker is a [gocron.Locker]. It is safe for concurrent use.
type Locker struct {
	locks   *redlock.Locker
	options []redlock.AcquireOption
	keep    time.Duration

	mu   sync.Mutex
	runs map[string]*redlock.Lock // under way here, by the job's name
}

// New returns a Locker of jobs. Options are those of each acquire.
func New(locks *redlock.Locker, options ...redlock.AcquireOption) *Locker {
	return &Locker{locks: locks, options: options, runs: make(map[string]*redlock.Lock)}
}

// KeepFor makes each run keep its key for this time after its end: longer than clocks of the processes may differ, and
// shorter than the time between two runs. It returns l.
func (l *Locker) KeepFor(keep time.Duration) *Locker {
	l.keep = keep
	return l
}

// Lock takes the lock on a job's name, if it is free. gocron calls it.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := l.locks.TryAcquire(ctx, job, l.options...)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.runs[job] = lock
	l.mu.Unlock()
	return &run{l, lock}, nil
}

// Context returns a context for the run of a job in this process: it ends with ctx, and when the job's lock is lost, with
// that cause. Where no run of the job has its lock here, the context has ended already, with [redlock.ErrLost].
func (l *Locker) Context(ctx context.Context, job string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	lock := l.runs[job]
	l.mu.Unlock()
	if lock == nil {
		cancel(redlock.ErrLost)
		return ctx, func() {}
	}
	stop := context.AfterFunc(lock.Context(), func() { cancel(context.Cause(lock.Context())) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

type run struct {
	of   *Locker
	lock *redlock.Lock
}

// Unlock releases the lock, or leaves the key for the time of KeepFor. gocron calls it, with the context of the job, and
// drops the error.
func (r *run) Unlock(ctx context.Context) error {
	r.of.mu.Lock()
	if key := r.lock.Key(); r.of.runs[key] == r.lock {
		delete(r.of.runs, key)
	}
	r.of.mu.Unlock()
	if r.of.keep == 0 {
		return r.lock.Release()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.of.keep)
	defer cancel()
	err := r.lock.Extend(ctx, r.of.keep)
	return errors.Join(err, r.lock.Abandon())
}

// Elector is a [gocron.Elector]: one process runs all jobs.
type Elector struct {
	mu   sync.Mutex
	term *election.Term
}

var errFollows = errors.New("another process leads, or nobody")

// Campaign campaigns until ctx ends, again after each loss, with this value for observers. Its error is that of
// [election.Election.Run].
func (e *Elector) Campaign(ctx context.Context, of *election.Election, value string, options ...redlock.AcquireOption) error {
	return of.Run(ctx, value, func(ctx context.Context, term *election.Term) error {
		e.mu.Lock()
		e.term = term
		e.mu.Unlock()
		<-ctx.Done()
		return context.Cause(ctx)
	}, options...)
}

// IsLeader returns nil while this process leads. gocron calls it before each run.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || !e.term.Leads() {
		return errFollows
	}
	return nil
}
