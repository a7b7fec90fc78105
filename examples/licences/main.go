// Licences lets workers share a pool of licences, each of which may be used by one of them at a
// time. A semaphore gives each worker a licence of its own, by the number of its slot. Without it
// the workers look for one that is free and take it, and two take the same.
//
//	go run ./licences
//	go run ./licences --no-semaphore
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() {
	program.Main("licences", func(ctx context.Context, out io.Writer, args []string) error {
		return run(ctx, out, args, nodes.Connect)
	})
}

// run is the whole program. Each Locker gets its nodes from connect, which is [nodes.Connect] but
// for tests.
func run(ctx context.Context, out io.Writer, args []string, connect func(client string, urls []string) ([]driver.Node, error)) error {
	flags := program.NewFlags("licences")
	workers := flags.Int("workers", 8, "how many workers there are")
	licences := flags.Int("licences", 3, "how many licences they share")
	jobs := flags.Int("jobs", 10, "how many jobs each of them does")
	job := flags.Duration("job", 20*time.Millisecond, "how long a job takes")
	noSemaphore := flags.Bool("no-semaphore", false, "leave the semaphore out, and see who shares a licence")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}
	if *workers < 1 || *jobs < 1 || *licences < 1 || *licences > redlock.MaxPermits {
		return fmt.Errorf("--workers, --jobs and --licences: want at least 1 each, and at most %d licences", redlock.MaxPermits)
	}
	if *job < 0 {
		return errors.New("--job: want at least 0")
	}

	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	how := "by a semaphore"
	if *noSemaphore {
		how = "by looking for one that is free"
	}
	_, _ = fmt.Fprintf(out, "%d workers do %d jobs each with %d licences, which they get %s.\n", *workers, *jobs, *licences, how)
	of := newPool(*licences)
	err = together(ctx, *workers, worker{
		connect: func() ([]driver.Node, error) { return connect(flags.Client, urls) },
		pool:    of, jobs: *jobs, job: *job, noSemaphore: *noSemaphore,
	})
	if err != nil {
		return err
	}
	return of.judge(out, *noSemaphore)
}
