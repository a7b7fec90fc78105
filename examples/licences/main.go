// Licences lets eight workers, as on eight machines, share three licences, each of which may be used
// by one of them at a time.
//
//	go run ./licences
//
// A semaphore of three permits gives each a permit and, by the number of its slot, a licence: no
// other permit that is valid has the same. A worker that dies leaves its slot to the others after one
// TTL. Without the semaphore each worker looks which licence is free and takes it, and between the
// two others do the same.
//
// The same goes for GPUs, test accounts or connections: whatever is there a few times and has
// numbers. A worker that was paused for longer than its lease may still believe in its licence. So
// run the job under the context that Do gives it; a licence server that can compare gets the fence.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() { program.Main(run) }

const licences = 3

// withPermit does a job with the licence that the permit is for.
func (w *worker) withPermit(ctx context.Context) error {
	semaphore, err := w.locker.Semaphore("licences", licences)
	if err != nil {
		return err
	}
	return semaphore.Do(ctx, func(ctx context.Context) error {
		return w.work(ctx, redlock.FromContext(ctx).Slots()[0])
	})
}

// withWhatIsFree does a job with a licence that nobody used a moment ago.
func (w *worker) withWhatIsFree(ctx context.Context) error {
	for {
		licence := w.users.free()
		if err := program.Sleep(ctx, time.Millisecond); err != nil { // the way to the licence server
			return err
		}
		if licence >= 0 {
			return w.work(ctx, licence)
		}
	}
}

// work does a job with the licence.
func (w *worker) work(ctx context.Context, licence int) error {
	w.users.change(licence, 1, func(all int) {
		if all > 1 {
			w.users.clashes++
			w.Printf("  %s uses licence %d, which is in use by %d already", w.name, licence+1, all-1)
		} else {
			w.Printf("  %s uses licence %d, which was free", w.name, licence+1)
		}
	})
	defer w.users.change(licence, -1, func(int) {})
	return program.Sleep(ctx, 50*time.Millisecond)
}

// A worker has a Locker of its own, as on a machine of its own.
type worker struct {
	program.Stage
	name   string
	locker *redlock.Locker
	users  *users
}

// Users are how many use each licence. They are only counted.
type users struct {
	mu      sync.Mutex
	of      [licences]int
	clashes int // how often one was taken that was in use
}

// free returns a licence that nobody uses, or -1.
func (u *users) free() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Index(u.of[:], 0)
}

// change counts one more or less, and tells how many there are before the next one counts.
func (u *users) change(licence, by int, tell func(all int)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[licence] += by
	tell(u.of[licence])
}

func run(ctx context.Context, s program.Stage) error {
	s.Println("There are three licences, each for one user at a time, and eight workers that need one for a moment.")
	return errors.Join(
		eight(ctx, s, "Each looks for a licence that is free, and takes it:", (*worker).withWhatIsFree),
		eight(ctx, s, "Each waits for one of three permits, and takes the licence of its number:", (*worker).withPermit),
	)
}

// eight lets eight workers do a job each.
func eight(ctx context.Context, s program.Stage, how string, do func(*worker, context.Context) error) error {
	s.Println(how)
	var u users
	err := program.Together(8, func(i int) error {
		locker, err := s.Open()
		if err != nil {
			return err
		}
		w := &worker{s, fmt.Sprintf("worker %d", i+1), locker, &u}
		return errors.Join(do(w, ctx), locker.Close())
	})
	s.Printf("So a licence that was in use was taken %d times.", u.clashes)
	return err
}
