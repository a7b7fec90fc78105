// Package gooselock lets several processes that migrate a database at their start do so one after the other:
//
//	goose.NewProvider(goose.DialectMySQL, db, files, goose.WithSessionLocker(gooselock.New(locker, "migrations")))
//
// It is for databases without locks of their own. The package does not import goose: a [Locker] has the methods of its
// lock.SessionLocker, since v3.16.
package gooselock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/redlock"
)

// A Locker holds the lock on a key while goose migrates. It is safe for concurrent use: callers take turns.
type Locker struct {
	locks   *redlock.Locker
	key     string
	options []redlock.AcquireOption

	mu   sync.Mutex
	held *redlock.Lock // nil: not locked
}

// New returns a Locker for the lock on key, whose options are those of each acquire.
func New(locks *redlock.Locker, key string, options ...redlock.AcquireOption) *Locker {
	return &Locker{locks: locks, key: key, options: options}
}

// SessionLock takes the lock, and waits while another process migrates: until ctx ends, or for as long as
// [redlock.WithMaxWait] allows. The connection is not used.
func (l *Locker) SessionLock(ctx context.Context, _ *sql.Conn) error {
	lock, err := l.locks.Acquire(ctx, l.key, l.options...)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.held = lock
	l.mu.Unlock()
	return nil
}

// SessionUnlock releases the lock. An error that matches [redlock.ErrLost] says that another process may have migrated at
// the same time: goose does not stop a migration whose lock is lost. Look at the database before the next start.
func (l *Locker) SessionUnlock(context.Context, *sql.Conn) error {
	l.mu.Lock()
	lock := l.held
	l.held = nil
	l.mu.Unlock()
	if lock == nil {
		return fmt.Errorf("gooselock: %q: %w", l.key, errUnlocked)
	}
	return lock.Release()
}

var errUnlocked = errors.New("it is not locked: call SessionLock before SessionUnlock")
