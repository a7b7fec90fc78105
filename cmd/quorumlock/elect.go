//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/supervise"
)

// An electing is one run of elect.
type electing struct {
	running
	name, listen      string
	onElected, onLost string // programs
}

func electVerb(t *tool) *cobra.Command {
	e := &electing{running: running{tool: t, elects: true, restart: true}}
	verb := t.overNodes(&cobra.Command{
		Use:   "elect [flags] ELECTION [-- PROGRAM [ARG…]]",
		Short: "Campaign for leadership, and run a program while this process leads",
		Long: `elect takes part in the ELECTION, whose leader holds the lock on a key of that name. While this process leads it
runs PROGRAM, as "quorumlock run" does. When the lock was lost and PROGRAM stopped it campaigns again; when PROGRAM
ends by itself, elect resigns and ends with its code. Without a PROGRAM it leads until a signal comes.

With --listen it answers HTTP:
  /         who leads, as far as this process knows: {"name":"web-7","leads":false}, with "fence" if it leads itself
  /leader   200 if this process leads, 503 if not: for a readiness probe
  /healthz  503 while it leads and cannot renew the lock: for a liveness probe

--on-elected and --on-lost are executable files without arguments, which find ELECTION in QUORUMLOCK_KEY. The first is
run to its end before PROGRAM, under the lock; the second when a term is over, for whatever reason.

Without --fences, and a store that refuses writes with a lower one, two leaders can overlap if a process or its machine
is stopped at the wrong moment: no election over a network can prevent that.`,
		Example: `  quorumlock elect --profile prod --listen 127.0.0.1:4040 scheduler -- ./scheduler
  quorumlock elect --on-elected ./take-address --on-lost ./drop-address gateway`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.elect(cmd.Context(), args)
		},
	})
	host, _ := os.Hostname() // unknown: "", which is refused
	flags := verb.Flags()
	flags.StringVar(&e.name, "name", host, "what tells others that this process leads: up to 1 KiB of printable characters")
	flags.StringVar(&e.listen, "listen", "", "serve the pages at this `address`, such as 127.0.0.1:4040")
	flags.StringVar(&e.onElected, "on-elected", "", "run this `file` when this process is elected")
	flags.StringVar(&e.running.onLost, "on-renewal-failure", onLostKill, "`what` to do when renewals fail: kill, or report for a program whose store refuses late writes by the fence")
	flags.StringVar(&e.onLost, "on-lost", "", "run this `file` when a term is over")
	e.flags(flags)
	e.wait, e.heldExit = forEver, exitTaken
	return verb
}

func (e *electing) elect(ctx context.Context, args []string) error {
	if e.name == "" {
		return exitf(exitUsage, "--name: a candidate needs a name that tells others who leads")
	}
	if err := e.check(args); err != nil {
		return err
	}
	var elected, over supervise.Program
	for file, to := range map[string]*supervise.Program{e.onElected: &elected, e.onLost: &over} {
		if file == "" {
			continue
		}
		var err error
		if *to, err = program([]string{file}); err != nil {
			return err
		}
	}
	return e.over(ctx, func(ctx context.Context, locker *redlock.Locker) error {
		p := &page{election: election.New(locker, e.key)}
		if e.listen != "" {
			stop, err := p.serve(ctx, e.listen)
			if err != nil {
				return exit(exitConfig, fmt.Errorf("--listen: %w", err))
			}
			defer stop()
		}
		e.notify("READY=1\nSTATUS=campaigns for " + e.key)
		return e.campaigns(ctx, p.election, e.name, []redlock.AcquireOption{redlock.OnRenewal(p.renewed)}, func(lock *redlock.Lock) error {
			p.leads(lock)
			defer p.leads(nil)
			err := e.term(ctx, lock, func() error { return e.lead(ctx, lock, elected) })
			if over.Path != "" {
				e.hook(ctx, over)
			}
			return err
		})
	})
}

// lead runs what there is to run in one term.
func (e *electing) lead(ctx context.Context, lock *redlock.Lock, elected supervise.Program) error {
	if elected.Path != "" {
		err := e.under(ctx, lock, elected)
		var code *verdict
		if errors.As(err, &code) {
			e.say("--on-elected has ended with code %d", code.code)
		} else if err != nil {
			return err
		}
	}
	if e.program.Path != "" {
		return e.under(ctx, lock, e.program)
	}
	for {
		select {
		case <-lock.Context().Done():
			return exitf(exitLost, "the lock on %q was lost", e.key)
		case s := <-e.signals:
			if err := ending(s); err != nil {
				return err
			}
		}
	}
}

// hook runs a program under no lock. A signal that ends programs ends it.
func (e *electing) hook(ctx context.Context, p supervise.Program) {
	defer e.endOnSignal()()
	run := exec.CommandContext(ctx, p.Path) //nolint:gosec // who runs the command says which
	run.Env = append(os.Environ(), keyVariable+"="+e.key)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		e.say("--on-lost: %v", err)
	}
}

// campaigns leads whenever this process is elected, until what it leads for has ended by itself, or a
// signal has come.
func (r *running) campaigns(ctx context.Context, e *election.Election, name string, options []redlock.AcquireOption, lead func(*redlock.Lock) error) error {
	for said := ""; ; {
		lock, err := r.acquire(ctx, func() (*redlock.Lock, error) {
			term, err := e.Campaign(ctx, name, append(options, r.options()...)...)
			if err != nil {
				return nil, err
			}
			return redlock.FromContext(term.Context()), nil //nolint:contextcheck // it descends from ctx
		})
		if err == nil {
			said = ""
			if err = lead(lock); codeOf(err) != exitLost {
				return err
			}
		}
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case errors.Is(err, redlock.ErrOption), errors.Is(err, redlock.ErrDeadlock), errors.Is(err, redlock.ErrClosed):
			return err
		case err.Error() != said:
			said = err.Error()
			r.say("%v; another campaign follows", err)
		}
		if err := r.rest(ctx); err != nil {
			return err
		}
	}
}

// rest waits between two campaigns, for half a second to a second.
func (r *running) rest(ctx context.Context) error {
	defer r.endOnSignal()()
	timer := time.NewTimer(time.Second/2 + rand.N(time.Second/2)) //nolint:gosec // nobody gains by guessing it
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
