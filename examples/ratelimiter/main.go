// Ratelimiter shares one limit of calls a second among services that know nothing of
// each other. What has been called is in a file that each of them updates under a lock.
// Without the lock they call more often than the limit allows.
//
//	go run ./ratelimiter
//	go run ./ratelimiter --no-lock
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/examples/internal/program"
)

func main() {
	program.Main("ratelimiter", func(ctx context.Context, out io.Writer, args []string) error {
		return run(ctx, out, args, nodes.Connect)
	})
}

// run is the whole program. Each Locker gets its nodes from connect, which is
// [nodes.Connect] but for tests.
func run(ctx context.Context, out io.Writer, args []string, connect func(client string, urls []string) ([]driver.Node, error)) error {
	flags := program.NewFlags("ratelimiter")
	services := flags.Int("services", 5, "how many services call")
	limit := flags.Int("limit", 10, "how many calls a second all of them may make together")
	duration := flags.Duration("for", 3*time.Second, "how long they go on")
	noLock := flags.Bool("no-lock", false, "leave the lock out, and see what becomes of the limit")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}
	if *services < 1 || *limit < 1 {
		return errors.New("--services and --limit: want at least 1 each")
	}

	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	dir, err := os.MkdirTemp("", "ratelimiter")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system clears its temporary files, too

	how := "under a lock"
	if *noLock {
		how = "without a lock"
	}
	_, _ = fmt.Fprintf(out, "%d services may make %d calls a second between them, and count them %s.\n", *services, *limit, how)
	var made journal
	shared := service{
		connect: func() ([]driver.Node, error) { return connect(flags.Client, urls) },
		window:  window{file: filepath.Join(dir, "window"), limit: *limit},
		noLock:  *noLock,
		made:    &made,
	}
	if err := together(ctx, *services, shared, time.Now().Add(*duration)); err != nil {
		return err
	}
	return made.judge(out, *limit, *noLock)
}
