// Quickstart does a job of three steps under a lock, so that it runs only once at a
// time, wherever it is started.
//
//	go run ./quickstart
//	go run ./quickstart --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 --client rueidis
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() {
	program.Main("quickstart", run)
}

// lease is far longer than a step of the job, which extends it after each.
const lease = 10 * time.Second

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	flags := program.NewFlags("quickstart")
	key := flags.String("key", "orders:42", "what to lock")
	wait := flags.Duration("wait", time.Second, "how long to wait for somebody else who has the lock")
	step := flags.Duration("step", 500*time.Millisecond, "how long each of the three steps takes")
	patience := flags.Duration("patience", 250*time.Millisecond, "how long one node may take to answer")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}

	list, stop, err := nodes.Open(flags.Client, flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	// A Logger, because the events come from other goroutines.
	logger := log.New(out, "", 0)
	locker, err := redlock.New(list,
		redlock.WithTTL(lease),
		redlock.WithNodeTimeout(*patience),
		// Nothing else tells of a minority that is down: the lock works all the same.
		redlock.OnEvent(func(event redlock.Event) { logger.Println(event) }),
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()

	return job{logger, *key, *step}.run(ctx, locker, *wait)
}
