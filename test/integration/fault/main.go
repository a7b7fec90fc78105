// Command fault proves what the lock promises, or finds where it does not hold: clients
// in processes of their own take locks on five real servers while faults happen to both,
// by a seed, and what they noted down is judged.
//
//	go run ./fault -for 1m
//	go run ./fault -nodes containers -for 1m -seed 7
//	go run ./fault -without guard -kinds 'restart the whole cluster' -for 20s
//	go run ./fault -without guard -lease 1m -locks all -for 20s
//
// It ends with an error if anything is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/container"
	"github.com/quorumlock/quorumlock/test/integration/fault/cluster"
	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/fault/worker"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// workerCommand is the first argument of a run of this program that is a client.
const workerCommand = "worker"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == workerCommand {
		return worker.Serve(ctx, os.Stdin, os.Stdout)
	}
	flags := flag.NewFlagSet("fault", flag.ContinueOnError)
	var (
		t       = Trial{Job: worker.Job{Library: "quorumlock", Mix: worker.Ordinary}}
		nodes   = flags.String("nodes", "processes", "processes or containers")
		clients = flags.String("clients", "goredis,redigo,rueidis", "the client library of each process, which may come again")
		without = flags.String("without", "", "what the locks do not have: guard, fences; or what is wrong: releases, renewals, order")
		kinds   = flags.String("kinds", "", "the kinds of faults, by default all: "+listed(schedule.Kinds()))
		locks   = flags.String("locks", "", "the kinds of locks that are mixed, or all: "+strings.Join(worker.Job{}.Kinds(), ",")+"; by default exclusive ones")
		row     = flags.String("row", "", "put the figures into the row of docs/proof.md that begins so, if nothing is wrong")
	)
	flags.Uint64Var(&t.Seed, "seed", uint64(time.Now().UnixNano()), "the seed of faults and clients")
	flags.DurationVar(&t.For, "for", 30*time.Second, "how long, at least")
	flags.Int64Var(&t.Acquisitions, "acquisitions", 0, "how many, at least")
	flags.IntVar(&t.Job.Workers, "workers", 32, "how many goroutines each process has")
	flags.IntVar(&t.Job.Keys, "keys", 1024, "how many locks there are")
	flags.DurationVar(&t.Job.Lease, "lease", time.Second, "the TTL of the locks; behind more than 1s nothing may be left right after the last release, and no fault loses votes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	t.Tell = func(had int64) { fmt.Printf("fault: %d locks so far\n", had) }
	all := t.Job.Kinds()
	if t.Job.Locks = words(*locks); *locks == "all" {
		t.Job.Locks = all
	}
	for _, kind := range t.Job.Locks {
		if !slices.Contains(all, kind) {
			return fmt.Errorf("-locks %q: with a lease of %v want some of %s", kind, t.Job.Lease, strings.Join(all, ", "))
		}
	}
	t.Clients = words(*clients)
	t.Job.Without = words(*without)
	for _, kind := range words(*kinds) {
		t.Kinds = append(t.Kinds, schedule.Kind(kind))
	}
	if *row != "" {
		if _, _, err := rowOf(page, *row); err != nil {
			return err // before the trial, not after it
		}
	}
	var err error
	if t.Program, err = os.Executable(); err != nil {
		return err
	}
	c, err := start(ctx, *nodes, t)
	if errors.Is(err, errMissing) && !redisserver.Required(*nodes) {
		fmt.Printf("fault: %s: NOT RUN: %v\n", *nodes, err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Printf("fault: seed %d, %s, %d clients (%s)\n", t.Seed, *nodes, len(t.Clients), *clients)
	report, err := t.Run(ctx, c)
	if err == nil {
		fmt.Print(report)
		if !report.Clean() {
			err = fmt.Errorf("something is wrong; for the same faults add -seed %d", t.Seed)
		} else if *row != "" {
			err = report.record(page, *row)
		}
	}
	return errors.Join(err, c.Close())
}

// five is how many nodes there are.
const five = 5

// errMissing says that nodes cannot run on this machine.
var errMissing = errors.New("they cannot run here")

// start starts the nodes.
func start(ctx context.Context, nodes string, t Trial) (*cluster.Cluster, error) {
	switch nodes {
	case "processes":
		c, err := cluster.Processes(schedule.Durable(t.Seed, five), len(t.Clients))
		if server.Missing(err) {
			err = fmt.Errorf("%w: %w", errMissing, err)
		}
		return c, err
	case "containers":
		if err := container.Prepare(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", errMissing, err)
		}
		durable := schedule.Durable(t.Seed, five)
		images := container.Images()
		return cluster.Of(five, len(t.Clients), func(i int) (*container.Container, error) {
			return container.Launch(ctx, images[i%len(images)], cluster.Arguments(durable[i])...)
		})
	}
	return nil, fmt.Errorf("-nodes %q: want processes or containers", nodes)
}

func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func listed(kinds []schedule.Kind) string {
	var text []string
	for _, k := range kinds {
		text = append(text, string(k))
	}
	return strings.Join(text, ",")
}
