// Quickstart does a job of three steps under a lock, so that it runs only once at a
// time, wherever it is started.
//
//	go run ./quickstart
//	go run ./quickstart --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 --client rueidis
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// lease is far longer than a step of the job, which extends it after each.
const lease = 10 * time.Second

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	given := flags.String("nodes", "", "the nodes' URLs, with commas between them (default five embedded nodes)")
	client := flags.String("client", "goredis", "the Redis client: goredis, redigo or rueidis")
	key := flags.String("key", "orders:42", "what to lock")
	wait := flags.Duration("wait", time.Second, "how long to wait for somebody else who has the lock")
	step := flags.Duration("step", 500*time.Millisecond, "how long each of the three steps takes")
	patience := flags.Duration("patience", 250*time.Millisecond, "how long one node may take to answer")
	flags.SetOutput(io.Discard) // main says what is wrong
	err = flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		flags.Usage()
		return nil
	case err != nil:
		return fmt.Errorf("%w (see --help)", err)
	case flags.NArg() > 0:
		return fmt.Errorf("%q is not part of a flag (see --help)", flags.Arg(0))
	}

	urls, stop, err := nodeURLs(*given) //nolint:contextcheck // the nodes live until stop
	if err != nil {
		return err
	}
	defer stop()
	nodes, err := connect(*client, urls)
	if err != nil {
		return err
	}
	// A Logger, because the events come from other goroutines.
	logger := log.New(out, "", 0)
	locker, err := redlock.New(nodes,
		redlock.WithTTL(lease),
		redlock.WithNodeTimeout(*patience),
		// Nothing else tells of a minority that is down: the lock works all the same.
		redlock.WithEvents(func(event redlock.Event) { logger.Println(event) }),
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()

	return job{logger, *key, *step}.run(ctx, locker, *wait)
}
