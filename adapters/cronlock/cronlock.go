// Package cronlock lets several processes with the same robfig/cron schedule run each job once.
//
//	c := cron.New(cron.WithChain(cronlock.Skip(locker, "reports", report)))
//
// A job of this library has no context: it is not told that its lock is lost. Use [Job] for work that must stop then.
package cronlock

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/quorumlock/quorumlock/redlock"
)

// Skip returns a wrapper that runs a job under the lock on key, and skips the run where another process has the lock. All
// jobs of a chain with it have the same key, so give each job a chain of its own. Report gets every other error, one of a
// lost lock included ([redlock.ErrLost]: the run may not have been alone); nil drops it.
func Skip(locks *redlock.Locker, key string, report func(error), options ...redlock.AcquireOption) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return Job(locks, key, func(context.Context) error {
			job.Run()
			return nil
		}, report, options...)
	}
}

// Job returns a job that works under the lock on key, and is skipped where another process has the lock. The context
// ends when the lock is lost. Report gets every other error, the work's included; nil drops it.
func Job(locks *redlock.Locker, key string, work func(context.Context) error, report func(error), options ...redlock.AcquireOption) cron.Job {
	options = append([]redlock.AcquireOption{redlock.WithMaxWait(0)}, options...)
	return cron.FuncJob(func() {
		err := locks.Do(context.Background(), key, work, options...)
		if err != nil && !errors.Is(err, redlock.ErrTaken) && report != nil {
			report(err)
		}
	})
}
