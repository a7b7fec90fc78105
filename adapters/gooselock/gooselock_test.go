package gooselock_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/adapters/gooselock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/trial"
)

// Goose's lock.SessionLocker has these methods.
var _ interface {
	SessionLock(ctx context.Context, conn *sql.Conn) error
	SessionUnlock(ctx context.Context, conn *sql.Conn) error
} = (*gooselock.Locker)(nil)

func TestThreeProcessesMigrateOneAfterTheOther(t *testing.T) {
	if trial.Child() {
		locks, err := redlock.New(trial.Nodes(), redlock.WithTTL(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		l := gooselock.New(locks, "migrations")
		for t.Context().Err() == nil {
			if err := l.SessionLock(t.Context(), nil); err != nil {
				t.Errorf("SessionLock = %v", err) // a busy machine may need the whole second of the lease
				continue
			}
			trial.Work()
			if err := l.SessionUnlock(t.Context(), nil); err != nil {
				t.Errorf("SessionUnlock = %v", err)
			}
		}
	}
	trial.Start(t).HandsOver()
}

func TestAMigrationIsToldWhatGoesWrong(t *testing.T) {
	locks, err := redlock.New(trial.Over(redisserver.Start(t).Addr))
	if err != nil {
		t.Fatal(err)
	}
	one, other := gooselock.New(locks, "migrations"), gooselock.New(locks, "migrations", redlock.WithMaxWait(0))
	if err := one.SessionUnlock(t.Context(), nil); err == nil {
		t.Error("what is not locked is unlocked without an error")
	}
	if err := one.SessionLock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := other.SessionLock(t.Context(), nil); !errors.Is(err, redlock.ErrTaken) {
		t.Errorf("beside a migration SessionLock = %v, want ErrTaken", err)
	}
	_ = locks.Close()
	if err := one.SessionUnlock(t.Context(), nil); !errors.Is(err, redlock.ErrClosed) {
		t.Errorf("SessionUnlock after Close = %v, want ErrClosed", err)
	}
}
