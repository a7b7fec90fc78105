// Counter adds to a number in a file from many processes at once, each time under a
// lock, and finds every addition in the file. Without the lock most of them are lost.
//
//	go run ./counter
//	go run ./counter --no-lock
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
	program.Main("counter", func(ctx context.Context, out io.Writer, args []string) error {
		return run(ctx, out, args, compute)
	})
}

// compute takes a moment, in place of what a program does with a number between
// reading and writing it.
func compute(ctx context.Context) error {
	select {
	case <-time.After(time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run is the whole program. Everybody who adds calls between after reading and before
// writing.
func run(ctx context.Context, out io.Writer, args []string, between func(context.Context) error) error {
	flags := program.NewFlags("counter")
	processes := flags.Int("processes", 4, "how many processes add at the same time")
	goroutines := flags.Int("goroutines", 4, "how many goroutines of each process do")
	times := flags.Int("times", 25, "how often each of them adds 1")
	noLock := flags.Bool("no-lock", false, "leave the lock out, and see what is lost")
	file := flags.String("file", "", "add to the number in this file, and start no processes")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}
	switch {
	case *processes < 1 || *goroutines < 1 || *times < 1:
		return errors.New("--processes, --goroutines and --times: want at least 1 each")
	case *file != "" && flags.Nodes == "":
		return errors.New("--file: want --nodes as well, for a process that has nodes of its own is locked against nobody")
	}

	urls, stop, err := nodes.URLs(flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	a := adder{number(*file), *goroutines, *times, *noLock, between}
	if *file != "" {
		return a.run(ctx, flags.Client, urls)
	}
	p := parent{out, flags.Client, urls, *processes}
	return p.run(ctx, a)
}
