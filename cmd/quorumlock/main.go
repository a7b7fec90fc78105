// Command quorumlock looks after locks over N independent Redis-compatible masters.
//
//	quorumlock doctor --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
//	quorumlock run --profile prod nightly -- /usr/local/bin/report
//
// Each verb is a file of this package. Data goes to stdout, everything else to stderr.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumlock/quorumlock/internal/supervise"
)

func main() {
	supervise.Init()  // this may be the guard of a program
	logging.Disable() // what the client has to say is in the errors
	t := &tool{in: os.Stdin, out: os.Stdout, talk: os.Stderr, getenv: os.Getenv}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if !signal.Ignored(os.Interrupt) { // or a program of run would not inherit it
		signal.Notify(signals, os.Interrupt)
	}
	go func() {
		if s, ok := (<-signals).(syscall.Signal); ok && !t.forwards.Load() {
			signal.Stop(signals) // the next one ends the process at once
			cancel(interrupted(s))
		}
	}()
	os.Exit(t.run(ctx, os.Args[1:]))
}

// interrupted is the end of a run by a signal.
type interrupted syscall.Signal

func (i interrupted) Error() string { return syscall.Signal(i).String() }
