// Transfer moves money between accounts from many goroutines at once. Each transfer takes the locks
// on both accounts as one, and the sum of all accounts stays what it was. Without the locks money
// is lost or made; with locks that are taken one by one, transfers wait for each other.
//
//	go run ./transfer
//	go run ./transfer --no-lock
//	go run ./transfer --one-by-one
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() { program.Main("transfer", run) }

// The accounts, and what each has at first.
const (
	accounts = 4
	deposit  = 1000
)

// run is the whole program.
func run(ctx context.Context, out io.Writer, args []string) error {
	flags := program.NewFlags("transfer")
	callers := flags.Int("callers", 8, "how many goroutines move money at the same time")
	times := flags.Int("times", 25, "how often each of them does")
	noLock := flags.Bool("no-lock", false, "leave the locks out, and see what the sum becomes")
	oneByOne := flags.Bool("one-by-one", false, "take the locks in the order of the accounts, and see who waits for whom")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}
	if *callers < 1 || *times < 1 || *noLock && *oneByOne {
		return errors.New("--callers and --times: want at least 1 each; --no-lock or --one-by-one, but not both")
	}
	list, stop, err := nodes.Open(flags.Client, flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	// The nodes share a machine that may be busy.
	locker, err := redlock.New(list, redlock.WithNodeTimeout(2*time.Second))
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close() }() // the transfers are done

	b := newBank(locker)
	b.think = func(context.Context) { time.Sleep(time.Millisecond) }
	move := b.transfer
	switch {
	case *noLock:
		move = b.move
	case *oneByOne:
		move = b.transferOneByOne
	}
	var deadlocks atomic.Int32
	failures := make([]error, *callers)
	var group sync.WaitGroup
	for i := range failures {
		group.Go(func() {
			for range *times {
				pair := rand.Perm(accounts) //nolint:gosec // no secret
				err := move(ctx, name(pair[0]), name(pair[1]), 10)
				switch {
				case errors.Is(err, redlock.ErrDeadlock):
					deadlocks.Add(1)
				case err != nil:
					failures[i] = err
					return
				}
			}
		})
	}
	group.Wait()
	_, _ = fmt.Fprintf(out, "%d transfers were made. All accounts together had %d, and have %d now.\n", *callers**times-int(deadlocks.Load()), accounts*deposit, b.sum())
	if n := deadlocks.Load(); n > 0 {
		_, _ = fmt.Fprintf(out, "%d more gave up: each had one account, and waited for one that another had, which waited for it.\n", n)
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	if !*noLock && b.sum() != accounts*deposit {
		return errors.New("the locks have let two in at once")
	}
	return nil
}

func name(i int) string { return fmt.Sprintf("account:%d", i) }
