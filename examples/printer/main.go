// A printer is shared by three offices, each a process of its own. Jobs are printed in the order in
// which they came, whatever office they come from, and an urgent one before those that have waited
// for less than a minute.
//
//	go run ./printer
//	go run ./printer --no-turns
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
	program.Main("printer", run)
}

func run(ctx context.Context, out io.Writer, args []string) error {
	p := printer{log: log.New(out, "", 0)}
	flags := program.NewFlags("printer")
	noTurns := flags.Bool("no-turns", false, "let chance decide which office is next, to see what turns are for")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}
	options := []redlock.Option{redlock.WithFairness()}
	if *noTurns {
		options = nil
	}
	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	for range offices {
		servers, err := nodes.Connect(flags.Client, urls)
		if err != nil {
			return err
		}
		locker, err := redlock.New(servers, options...)
		if err != nil {
			return err
		}
		defer func() { _ = locker.Close() }()
		p.offices = append(p.offices, locker)
	}
	return p.work(ctx, !*noTurns)
}
