// Fencing stops a process in the wrong moment, and shows what becomes of the write that
// it makes when its lease is long over.
//
//	go run ./fencing
//	go run ./fencing --no-fence
//	go run ./fencing --store redis
package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/examples/internal/program"
)

func main() {
	program.Main("fencing", run)
}

// run is the whole program.
func run(ctx context.Context, out io.Writer, args []string) error {
	flags := program.NewFlags("fencing")
	kind := flags.String("store", "sqlite", "where the account is: sqlite, or redis on the first of the nodes")
	noFence := flags.Bool("no-fence", false, "leave the fences out, and see what is lost")
	ttl := flags.Duration("ttl", time.Second, "how long a lock lasts")
	place := flags.String("account", "", "pay into this account, and start no processes")
	deposit := flags.Int("deposit", 10, "how much to pay in with --account")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}
	if *place != "" && flags.Nodes == "" {
		return errors.New("--account: want --nodes as well, for a process that has nodes of its own is locked against nobody")
	}

	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	if *place != "" {
		w := worker{out: out, deposit: *deposit, ttl: *ttl, noFence: *noFence}
		return w.run(ctx, flags.Client, urls, *kind, *place)
	}
	p := parent{out: out, client: flags.Client, urls: urls, store: *kind, ttl: *ttl, noFence: *noFence}
	return p.run(ctx)
}
