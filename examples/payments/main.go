// Payments charges orders that a queue delivers twice, each of them once.
//
//	go run ./payments
//	go run ./payments --no-lock
//	go run ./payments --no-record
package main

import (
	"context"
	"io"
	"log"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/examples/internal/program"
)

func main() {
	program.Main("payments", run)
}

func run(ctx context.Context, out io.Writer, args []string) error {
	s := shop{log: log.New(out, "", 0)} // a Logger, because the workers print at the same time
	flags := program.NewFlags("payments")
	flags.BoolVar(&s.noLock, "no-lock", false, "leave the lock out, to see what it is for")
	flags.BoolVar(&s.noRecord, "no-record", false, "leave out the record of a charge that is begun, to see what the lock is not for")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}

	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	s.connect = func() ([]driver.Node, error) { return nodes.Connect(flags.Client, urls) }
	return s.open(ctx)
}
