// Leader numbers invoices with three replicas of a service, of which one leads: it alone hands out
// numbers. Each replica leads until it is deployed anew, and the next one goes on.
//
//	go run ./leader
//	go run ./leader --no-election
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
	program.Main("leader", run)
}

func run(ctx context.Context, out io.Writer, args []string) error {
	s := service{log: log.New(out, "", 0)} // a Logger, because the replicas print at the same time
	flags := program.NewFlags("leader")
	flags.BoolVar(&s.noElection, "no-election", false, "let every replica lead, to see what the election is for")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}

	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	s.connect = func() ([]driver.Node, error) { return nodes.Connect(flags.Client, urls) }
	return s.run(ctx)
}
