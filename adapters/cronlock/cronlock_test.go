package cronlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/quorumlock/quorumlock/adapters/cronlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/trial"
)

func TestAJobRunsInOneOfThreeProcesses(t *testing.T) {
	if trial.Child() {
		locks, err := redlock.New(trial.Nodes(), redlock.WithTTL(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		job := cronlock.Skip(locks, "nightly", func(err error) { t.Errorf("the job: %v", err) })(cron.FuncJob(trial.Work))
		for t.Context().Err() == nil { // cron's own shortest pause is a second
			job.Run()
		}
	}
	trial.Start(t).HandsOver()
}

func TestAJobReportsWhatGoesWrong(t *testing.T) {
	locks, err := redlock.New(trial.Over(redisserver.Start(t).Addr))
	if err != nil {
		t.Fatal(err)
	}
	var reported []error
	report := func(err error) { reported = append(reported, err) }
	broken := errors.New("broken")
	cronlock.Job(locks, "nightly", func(context.Context) error { return broken }, report).Run()
	if len(reported) != 1 || !errors.Is(reported[0], broken) {
		t.Errorf("reported %v, want the work's error", reported)
	}
	lock, err := locks.TryAcquire(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	cronlock.Job(locks, "nightly", func(context.Context) error { t.Error("it runs beside another holder"); return nil }, report).Run()
	if len(reported) != 1 {
		t.Errorf("a run that is skipped reported %v", reported[1:])
	}
	_ = lock.Release()
	_ = locks.Close()
	cronlock.Job(locks, "nightly", func(context.Context) error { return nil }, report).Run()
	if len(reported) != 2 || !errors.Is(reported[1], redlock.ErrClosed) {
		t.Errorf("with a closed Locker it reported %v, want ErrClosed", reported[1:])
	}
}
