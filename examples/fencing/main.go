// Fencing stops a worker between its last look at the lock and its write, for longer than its lease:
// the story of https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
//
//	go run ./fencing
//
// The second worker has the lock by then, and its write stands: the store refuses the late one, whose
// fence is smaller than one that it has seen. Without fences the late write is taken, and what the
// second worker paid in is lost without a word. Nothing on the worker's side helps: it asked
// lock.Valid() and was told the truth. Its lock's context would stop most late writes, and none that
// has left already.
//
// Whoever is refused begins again, with a new lock and a new read: what it computed came from a balance
// that is gone. For a store that has no conditional updates, package fence compares.
package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite", without C

	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() { program.Main(run) }

// pay pays into the account under a lock. Whatever stops a process (a garbage collector, a suspended
// machine) may do so in pause.
func (w worker) pay(ctx context.Context, deposit int, pause func()) error {
	lock, err := w.locker.Acquire(ctx, "account")
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // the store refuses late writes
	balance, err := w.account.read(ctx, lock.Fence())
	if err != nil {
		return err
	}
	w.say("has the lock, with the fence %d, and reads %d", lock.Fence(), balance)
	if !lock.Valid() {
		return redlock.ErrLost
	}
	pause()
	err = w.account.write(ctx, balance+deposit, lock.Fence())
	switch {
	case errors.Is(err, errStale):
		w.say("wants to write %d, and is refused: %v", balance+deposit, err)
		return nil
	case err == nil:
		w.say("has written %d", balance+deposit)
	}
	return err
}

// An account is a row of a table. It has the greatest fence that it was shown, and refuses a smaller
// one: comparison and write are one statement, and so one transaction. Without fences all of them
// are 0, and everything is accepted, as by a store that knows nothing of fences.
type account struct{ db *sql.DB }

var errStale = errors.New("its fence is smaller than the account's")

// read is for whoever is going to write. It shows the fence already: otherwise a late write that came
// between this read and the write that follows would be accepted, and then written over.
func (a account) read(ctx context.Context, fence int64) (balance int, err error) {
	return a.row(a.db.QueryRowContext(ctx, "UPDATE account SET fence = ?1 WHERE fence <= ?1 RETURNING balance", fence))
}

func (a account) write(ctx context.Context, balance int, fence int64) error {
	_, err := a.row(a.db.QueryRowContext(ctx, "UPDATE account SET balance = ?1, fence = ?2 WHERE fence <= ?2 RETURNING balance", balance, fence))
	return err
}

// row finds none where the fence was stale.
func (a account) row(found *sql.Row) (balance int, err error) {
	if err = found.Scan(&balance); errors.Is(err, sql.ErrNoRows) {
		err = errStale
	}
	return balance, err
}

func (a account) balance(ctx context.Context) (balance int, err error) {
	return a.row(a.db.QueryRowContext(ctx, "SELECT balance FROM account"))
}

// outcome is what it means that the account has so much at the end.
var outcome = map[int]string{
	110: "the 50 of the second are lost, and nobody was told",
	150: "what the second has written stands, and the first knows that it has to begin again",
}

// A worker has a Locker of its own, as on a machine of its own.
type worker struct {
	program.Stage
	name    string
	locker  *redlock.Locker
	account account
}

func (w worker) say(format string, args ...any) { w.Printf("  "+w.name+" worker "+format, args...) }

// open makes an account with 100, in a database in memory.
func open(ctx context.Context) (account, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err == nil {
		db.SetMaxOpenConns(1) // each has a database of its own
		_, err = db.ExecContext(ctx, "CREATE TABLE account AS SELECT 100 AS balance, 0 AS fence")
	}
	return account{db}, err
}

// play lets two workers pay in, the second while the first is stopped.
func play(ctx context.Context, s program.Stage, title string, options ...redlock.Option) (err error) {
	account, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, account.db.Close()) }()
	s.Printf("%s: an account has 100, and two workers pay in 10 and 50, each under a lock.", title)
	var workers []worker
	for _, name := range []string{"the first", "the second"} {
		locker, err := s.Open(append(options, redlock.WithTTL(time.Second), redlock.WithNodeTimeout(time.Second/2))...)
		if err != nil {
			return err
		}
		defer func() { _ = locker.Close() }() // nothing is held any more
		workers = append(workers, worker{s, name, locker, account})
	}
	var failed error
	err = workers[0].pay(ctx, 10, func() {
		workers[0].say("is stopped before it writes, for longer than its lease")
		failed = workers[1].pay(ctx, 50, func() {}) // once the first one's lease has ended
		workers[0].say("goes on, and has no idea that it stood still")
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	balance, err := account.balance(ctx)
	if err == nil {
		s.Printf("  the account has %d: %s", balance, outcome[balance])
	}
	return err
}

func run(ctx context.Context, s program.Stage) error {
	return errors.Join(play(ctx, s, "Without fences (all are 0)"), play(ctx, s, "\nWith fences", redlock.WithFences()))
}
