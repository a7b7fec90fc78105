// Cron writes a report at every tick, with five schedulers of which each may fail and
// only one may write.
//
//	go run ./cron
//	go run ./cron --no-lock
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
	program.Main("cron", run)
}

func run(ctx context.Context, out io.Writer, args []string) error {
	c := cron{log: log.New(out, "", 0), clocks: clocks} // a Logger, because the schedulers print at the same time
	flags := program.NewFlags("cron")
	flags.BoolVar(&c.noLock, "no-lock", false, "leave the lock out, to see what it is for")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}

	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	c.connect = func() ([]driver.Node, error) { return nodes.Connect(flags.Client, urls) }
	return c.run(ctx)
}
