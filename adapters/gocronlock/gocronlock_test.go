package gocronlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/quorumlock/adapters/gocronlock"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/trial"
)

func locks(t *testing.T, nodes []driver.Node) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(nodes, redlock.WithTTL(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// schedules runs a job every few milliseconds, until the process is killed.
func schedules(t *testing.T, work func(), options ...gocron.SchedulerOption) {
	t.Helper()
	s, err := gocron.NewScheduler(options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(work), gocron.WithName("nightly")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	<-t.Context().Done()
}

func TestAJobRunsInOneOfThreeProcesses(t *testing.T) {
	if trial.Child() {
		schedules(t, trial.Work, gocron.WithDistributedLocker(gocronlock.New(locks(t, trial.Nodes()))))
	}
	trial.Start(t).HandsOver()
}

func TestTheLeaderOfThreeProcessesRunsTheJobs(t *testing.T) {
	if trial.Child() {
		var elector gocronlock.Elector
		go func() { _ = elector.Campaign(t.Context(), election.New(locks(t, trial.Nodes()), "leader"), "me") }()
		schedules(t, trial.Work, gocron.WithDistributedElector(&elector))
	}
	trial.Start(t).HandsOver()
}

func TestAJobsContextEndsWithItsLock(t *testing.T) {
	l := locks(t, trial.Over(redisserver.Start(t).Addr))
	jobs := gocronlock.New(l)
	ctx, stop := jobs.Context(t.Context(), "nightly")
	if stop(); !errors.Is(context.Cause(ctx), redlock.ErrLost) {
		t.Errorf("without a run the cause is %v, want ErrLost", context.Cause(ctx))
	}
	run, err := jobs.Lock(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Lock(t.Context(), "nightly"); !errors.Is(err, redlock.ErrTaken) {
		t.Errorf("Lock while the job runs = %v, want ErrTaken", err)
	}
	ctx, stop = jobs.Context(t.Context(), "nightly")
	defer stop()
	if ctx.Err() != nil {
		t.Errorf("while the job runs its context has ended: %v", context.Cause(ctx))
	}
	if err := l.Close(); err != nil { // as a lost lease, it ends the lock
		t.Fatal(err)
	}
	<-ctx.Done()
	_ = run.Unlock(t.Context())
}

func TestAKeyIsKeptBehindARun(t *testing.T) {
	l := locks(t, trial.Over(redisserver.Start(t).Addr))
	defer func() { _ = l.Close() }()
	run, err := gocronlock.New(l).KeepFor(time.Hour).Lock(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Unlock(t.Context()); err != nil {
		t.Errorf("Unlock = %v", err)
	}
	if _, err := gocronlock.New(l).Lock(t.Context(), "nightly"); !errors.Is(err, redlock.ErrTaken) {
		t.Errorf("Lock behind a run that keeps its key = %v, want ErrTaken", err)
	}
}
