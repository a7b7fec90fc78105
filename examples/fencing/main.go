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
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() { program.Main(run) }

// pay pays into the account under a lock. Whatever stops a process (a garbage collector, a suspended
// machine) may do so in pause.
func (w worker) pay(ctx context.Context, deposit int, pause func()) error {
	lock, err := w.locker.Acquire(ctx, "account", redlock.WithoutRenewal()) // a process that is stopped renews nothing
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // the store refuses late writes
	balance, err := w.account.read(lock.Fence())
	if err != nil {
		return err
	}
	w.say("has the lock, with the fence %d, and reads %d", lock.Fence(), balance)
	if !lock.Valid() {
		return redlock.ErrLost
	}
	pause()
	err = w.account.write(balance+deposit, lock.Fence())
	switch {
	case errors.Is(err, errStale):
		w.say("wants to write %d, and is refused: %v", balance+deposit, err)
		return nil
	case err == nil:
		w.say("has written %d", balance+deposit)
	}
	return err
}

// An account is what a table has a row for: a store that compares and writes in one step. It has the
// greatest fence that it was shown, and refuses a smaller one. Without fences all of them are 0, and
// everything is accepted, as by a store that knows nothing of fences. In SQL, in place of the mutex:
//
//	UPDATE account SET fence = ?1 WHERE fence <= ?1 RETURNING balance                 -- read
//	UPDATE account SET balance = ?1, fence = ?2 WHERE fence <= ?2 RETURNING balance   -- write
type account struct {
	mu      sync.Mutex
	balance int
	fence   int64
}

var errStale = errors.New("its fence is smaller than the account's")

// read is for whoever is going to write. It shows the fence already: otherwise a late write that came
// between this read and the write that follows would be accepted, and then written over.
func (a *account) read(fence int64) (balance int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if fence < a.fence {
		return 0, errStale
	}
	a.fence = fence
	return a.balance, nil
}

func (a *account) write(balance int, fence int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if fence < a.fence {
		return errStale
	}
	a.balance, a.fence = balance, fence
	return nil
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
	account *account
}

func (w worker) say(format string, args ...any) { w.Printf("  "+w.name+" worker "+format, args...) }

// play lets two workers pay in, the second while the first is stopped.
func play(ctx context.Context, s program.Stage, title string, options ...redlock.Option) error {
	account := &account{balance: 100}
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
	err := workers[0].pay(ctx, 10, func() {
		workers[0].say("is stopped before it writes, for longer than its lease")
		failed = workers[1].pay(ctx, 50, func() {}) // once the first one's lease has ended
		workers[0].say("goes on, and has no idea that it stood still")
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	s.Printf("  the account has %d: %s", account.balance, outcome[account.balance])
	return nil
}

func run(ctx context.Context, s program.Stage) error {
	return errors.Join(play(ctx, s, "Without fences (all are 0)"), play(ctx, s, "\nWith fences", redlock.WithFences()))
}
