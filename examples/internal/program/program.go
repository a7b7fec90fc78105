// Package program is what the examples have in common around what they show: their
// end by an interrupt, and the flags that say which nodes to use.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Main runs the program until it is done or interrupted, and exits with 1 if it failed.
func Main(name string, run func(ctx context.Context, out io.Writer, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Flags are a program's flags, --nodes and --client among them.
type Flags struct {
	*flag.FlagSet
	Nodes  string // as given
	Client string
}

// NewFlags returns the flags that all programs have.
func NewFlags(name string) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.StringVar(&f.Nodes, "nodes", "", "the nodes' URLs, with commas between them (default five embedded nodes)")
	f.StringVar(&f.Client, "client", "goredis", "the Redis client: goredis, redigo or rueidis")
	f.SetOutput(io.Discard) // Main says what is wrong
	return f
}

// Read reads the arguments. It reports false where the program has no more to do: they
// are wrong, or asked for help, which it has printed.
func (f *Flags) Read(out io.Writer, args []string) (goOn bool, err error) {
	err = f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(out)
		f.Usage()
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w (see --help)", err)
	case f.NArg() > 0:
		return false, fmt.Errorf("%q is not part of a flag (see --help)", f.Arg(0))
	}
	return true, nil
}
