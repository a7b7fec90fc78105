//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/internal/supervise"
	"github.com/quorumlock/quorumlock/redlock"
)

// An electing is one run of elect.
type electing struct {
	running
	name     string
	observes bool                           // and is no candidate
	hooks    struct{ elected, lost string } // files; "": none
}

func electVerb(t *tool) *cobra.Command {
	e := &electing{running: running{tool: t, elects: true, restart: true, terms: make(chan os.Signal, 1)}}
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
  /metrics  as "quorumlock run" has them
It leads from the end of --on-elected to the beginning of --on-lost.

With --observe it is no candidate: it prints who leads, first now and then at each change, one line each (with -o jsonl
one JSON object), until a signal comes.

--on-elected and --on-lost are executable files without arguments, which find ELECTION in QUORUMLOCK_KEY. The first is
run to its end before PROGRAM, under the lock. If it fails, elect resigns and ends with its code. The second is run when
PROGRAM has ended, or has been stopped, or --on-elected has failed; then the lock is released, so that the next leader's
--on-elected comes after it. But if the lock was lost, the next leader does not wait for it. After kill -9 of elect, and
when the machine goes down, it is not run at all: let --on-elected cope with what the last leader has left.

Without --fences, and a store that refuses writes with a lower one, two leaders can overlap if a process or its machine
is stopped at the wrong moment: no election over a network can prevent that.`,
		Example: `  quorumlock elect --profile prod --listen 127.0.0.1:4040 scheduler -- ./scheduler
  quorumlock elect --profile prod --observe -o jsonl scheduler
  quorumlock elect --on-elected ./take-address --on-lost ./drop-address gateway`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.elect(cmd.Context(), cmd.Flags(), args)
		},
	})
	host, _ := os.Hostname() // unknown: "", which is refused
	flags := verb.Flags()
	flags.StringVar(&e.name, "name", host, "what tells others that this process leads: up to 1 KiB of printable characters")
	flags.StringVar(&e.hooks.elected, "on-elected", "", "run this `file` when this process is elected")
	flags.StringVar(&e.hooks.lost, "on-lost", "", "run this `file` when a term is over")
	flags.BoolVar(&e.observes, "observe", false, "print who leads, now and at each change, and be no candidate")
	t.formats(verb)
	e.flags(flags)
	e.wait, e.heldExit = forEver, exitTaken
	return verb
}

func (e *electing) elect(ctx context.Context, flags *pflag.FlagSet, args []string) error {
	if e.observes {
		if len(args) != 1 {
			return exitf(exitUsage, "--observe runs nothing: want an ELECTION, and no program")
		}
		return e.observeOnly(ctx, args[0])
	}
	if e.name == "" {
		return exitf(exitUsage, "--name: a candidate needs a name that tells others who leads")
	}
	if err := e.check(flags, args); err != nil {
		return err
	}
	elected, err := hook(e.hooks.elected)
	if err != nil {
		return err
	}
	lost, err := hook(e.hooks.lost)
	if err != nil {
		return err
	}
	if e.program.Path != "" || elected.Path != "" {
		if err := e.room(); err != nil {
			return err
		}
	}
	p := new(page)
	p.register(&e.pages)
	return e.over(ctx, func(ctx context.Context, locker *redlock.Locker) error {
		p.election = election.New(locker, e.key)
		if e.listen != "" {
			ctx, cancel := context.WithCancel(ctx)
			var observing sync.WaitGroup
			observing.Go(func() { p.observe(ctx) })
			defer func() { cancel(); observing.Wait() }()
		}
		e.notify("READY=1")
		campaign := func() (held, error) {
			term, err := p.election.Campaign(ctx, e.name, e.options()...)
			if err != nil {
				return nil, err
			}
			return redlock.FromContext(term.Context()), nil //nolint:contextcheck // it has the values of ctx
		}
		return e.campaigns(ctx, campaign, func(lock held) error {
			e.alone = e.program.Path == ""
			return e.term(ctx, lock, func() error {
				err := e.lead(ctx, lock, elected, p)
				p.leads(nil)
				if lost.Path != "" {
					e.leave(ctx, lock, lost)
				}
				return err
			})
		})
	}, redlock.WithHooks(redlock.Hooks{ExtendEnd: p.extended}))
}

// hook looks a hook up; "" is none.
func hook(file string) (supervise.Program, error) {
	if file == "" {
		return supervise.Program{}, nil
	}
	return program([]string{file})
}

// lead runs what there is to run in one term. The page says that this process leads once
// --on-elected has done its work.
func (e *electing) lead(ctx context.Context, lock held, elected supervise.Program, p *page) error {
	if elected.Path != "" {
		err := e.under(ctx, lock, elected)
		var code *verdict
		if errors.As(err, &code) {
			e.say("--on-elected has ended with code %d: this process resigns", code.code)
		}
		if err == nil {
			err = e.asked()
		}
		if err != nil {
			return err
		}
	}
	p.leads(lock)
	if e.program.Path != "" {
		return e.under(ctx, lock, e.program)
	}
	for {
		select {
		case <-lock.Context().Done():
			return exitf(exitLost, "the lock on %s was lost", &e.target)
		case s := <-e.signals:
			if err := ending(s); err != nil {
				return err
			}
		}
	}
}

// leave runs --on-lost while the lock is still held, if it is. A lease that ends does not stop it, for
// it cleans up, and a lease file that cannot be written does not keep it from that. A signal that
// ends programs ends it, and the command.
func (e *electing) leave(ctx context.Context, lock held, lost supervise.Program) {
	defer e.endOnSignal()()
	e.alone = e.alone || lock.Valid()
	file, err := e.leaseFile(lock.Fence())
	if err != nil {
		e.say("--on-lost runs without it: %v", err)
	}
	lost.Env = e.environment(lock, file.Name())
	result, err := supervise.Run(ctx, lock, lost, supervise.Options{
		TTL: e.settings.TTL, Grace: e.grace, Signal: e.signal, Report: true, Alone: true, File: file,
	})
	if err != nil {
		e.say("--on-lost: %v", err)
	} else if result.Code != 0 {
		e.say("--on-lost has ended with code %d", result.Code)
	}
}

// campaigns leads whenever this process is elected, until what it leads for has ended by itself, or
// a signal has come.
func (r *running) campaigns(ctx context.Context, campaign func() (held, error), lead func(held) error) error {
	if !signal.Ignored(syscall.SIGTERM) {
		signal.Notify(r.terms, syscall.SIGTERM)
		defer signal.Stop(r.terms)
	}
	for {
		lock, err := r.await(ctx, campaign)
		if err == nil {
			if lasted := r.trouble.over(time.Now()); lasted > 0 {
				r.say("has %s: campaigns had failed for %v", &r.target, lasted.Round(time.Second))
			}
			if err = lead(lock); !wasLost(err) {
				return err
			}
			if asked := r.asked(); asked != nil {
				return asked
			}
		}
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case errors.Is(err, redlock.ErrOption), errors.Is(err, redlock.ErrDeadlock), errors.Is(err, redlock.ErrClosed):
			return err
		case r.trouble.due(redlock.Summary(err), time.Now()):
			r.say("%s; another campaign follows", spoken(err))
		}
		if err := r.rest(ctx); err != nil {
			return err
		}
		r.tell(r.event(eventWaiting))
	}
}

// asked is the error of a SIGTERM that was passed on to a program, and asks this command to end as
// well, whatever became of the program.
func (r *running) asked() error {
	select {
	case s := <-r.terms:
		return ending(s)
	default:
		return nil
	}
}

// rest waits between two campaigns, for half a second to a second.
func (r *running) rest(ctx context.Context) error {
	defer r.endOnSignal()()
	sleep(ctx, time.Second/2+rand.N(time.Second/2)) //nolint:gosec // nobody gains by guessing it
	return context.Cause(ctx)
}
