// Config keeps a configuration of two files that services read all the time and an operator
// changes now and then. Under a shared lock all services read at once, and none of them sees one
// file of a version and the other of the next. Without it some do.
//
//	go run ./config
//	go run ./config --no-lock
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/examples/internal/program"
)

func main() {
	program.Main("config", func(ctx context.Context, out io.Writer, args []string) error {
		return run(ctx, out, args, nodes.Connect)
	})
}

// run is the whole program. Each Locker gets its nodes from connect, which is
// [nodes.Connect] but for tests.
func run(ctx context.Context, out io.Writer, args []string, connect func(client string, urls []string) ([]driver.Node, error)) error {
	flags := program.NewFlags("config")
	services := flags.Int("services", 8, "how many services read")
	duration := flags.Duration("for", 3*time.Second, "how long they go on")
	noLock := flags.Bool("no-lock", false, "leave the lock out, and see what the services read")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}
	if *services < 1 || *duration <= 0 {
		return errors.New("--services and --for: want at least 1 service, and more than 0s")
	}

	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system clears its temporary files, too

	how := "under a shared lock"
	if *noLock {
		how = "without a lock"
	}
	_, _ = fmt.Fprintf(out, "%d services read a configuration of two files, %s, and an operator changes it.\n", *services, how)
	var seen journal
	company := company{
		connect: func() ([]driver.Node, error) { return connect(flags.Client, urls) },
		files:   files(dir),
		noLock:  *noLock,
		seen:    &seen,
		until:   time.Now().Add(*duration),
	}
	if err := company.work(ctx, *services); err != nil {
		return err
	}
	return seen.judge(out, *noLock)
}
