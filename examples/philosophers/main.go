// Philosophers dine: five sit around a table with a fork between any two of them, and each needs
// both of his forks to eat. All take the left one first, so they would wait for each other for
// ever. The wait that closes the ring is told so, and gives up.
//
//	go run ./philosophers
//	go run ./philosophers --no-context
package main

import (
	"context"
	"io"
	"log"

	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() {
	program.Main("philosophers", run)
}

func run(ctx context.Context, out io.Writer, args []string) error {
	t := table{log: log.New(out, "", 0)} // a Logger, because the philosophers print at the same time
	flags := program.NewFlags("philosophers")
	flags.BoolVar(&t.noContext, "no-context", false, "take the right fork without the left one's context, to see what that is for")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}

	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	servers, err := nodes.Connect(flags.Client, urls)
	if err != nil {
		return err
	}
	if t.locker, err = redlock.New(servers); err != nil {
		return err
	}
	defer func() { _ = t.locker.Close() }()
	return t.dine(ctx)
}
