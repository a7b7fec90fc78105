//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/internal/supervise"
	"github.com/quorumlock/quorumlock/redlock"
)

// A running is one run of a program under a lock, or under several, one after the other.
type running struct {
	*tool
	target
	key     string            // of several all of them, as errors of the library call them
	program supervise.Program // without a Path: none

	wait, grace, maxHold, atLeast  time.Duration
	once, restart, elects          bool
	exposeToken, exposeNodes       bool
	quiet                          bool
	heldExit, statusFD             int
	signalName, foreground, onLost string
	listen, textfile               string
	signal                         syscall.Signal

	locker  *redlock.Locker
	signals <-chan os.Signal
	terms   chan os.Signal          // SIGTERM once more, of those that campaign: who runs a program does not see the signals
	cancel  context.CancelCauseFunc // of the context under which locks are taken
	events  *eventLog
	figures figures
	trouble refrain
	looks   refrain       // of looks at who has the key that do
	pages   http.ServeMux // that are served with --listen
	mute    atomic.Bool   // the init system does not listen, and that was said
	alone   bool          // the leader's program was, to its end: a lock that is lost after that harms nobody
}

// run checks what was asked for, takes the lock, and runs the program.
func (r *running) run(ctx context.Context, flags *pflag.FlagSet, args []string) error {
	if err := r.check(flags, args); err != nil {
		return err
	}
	if err := r.room(); err != nil {
		return err
	}
	return r.over(ctx, func(ctx context.Context, locker *redlock.Locker) error {
		obtain := func() (held, error) { return r.obtain(ctx, locker) }
		lead := func(lock held) error {
			return r.term(ctx, lock, func() error { return r.under(ctx, lock, r.program) })
		}
		if r.restart {
			return r.campaigns(ctx, obtain, lead)
		}
		lock, err := r.await(ctx, obtain)
		if err != nil {
			return err
		}
		return lead(lock)
	})
}

// obtain takes the target, or waits for it. One try goes on while nobody is known to have it: some
// host has to get it. After one TTL, what crashed hosts have left is gone.
func (r *running) obtain(ctx context.Context, locker *redlock.Locker) (held, error) {
	options := append(r.options(), redlock.WithOwner(r.owner()))
	for began := time.Now(); ; {
		lock, err := r.acquire(ctx, locker, options)
		if !errors.Is(err, redlock.ErrContended) || r.wait > 0 && !r.once || ctx.Err() != nil || time.Since(began) > r.settings.TTL {
			return lock, err
		}
	}
}

// over gives a verb a Locker and the signals, and tells how it ends.
func (r *running) over(ctx context.Context, do func(context.Context, *redlock.Locker) error, options ...redlock.Option) (err error) {
	locker, err := r.settings.openLocker(options...)
	if err != nil {
		return err
	}
	text, err := newTextfile(r.textfile)
	if err != nil {
		_ = locker.Close() // nobody was asked
		return err
	}
	runtime.GOMAXPROCS(min(4, runtime.GOMAXPROCS(0))) // it has little to do, and each takes a thread that the program's user may lack
	signals, stop := supervise.Notify()
	defer stop()
	defer supervise.Reap()()
	defer r.feed()()
	r.locker, r.signals = locker, signals
	r.forwards.Store(true) // from here on a signal is in signals
	if context.Cause(ctx) == nil {
		if r.events, err = openEvents(r.statusFD, r.event(eventWaiting)); err == nil {
			r.figures.note(r.event(eventWaiting))
			ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
			err = r.served(ctx, func() error { return do(ctx, locker) })
			r.cancel(nil)
		}
	}
	r.notify("STOPPING=1")
	_ = locker.Close() // what it could not delete goes away with its lease
	err = r.held(err)
	code := exitOK
	if err != nil {
		code = codeOf(err)
	}
	last := r.event(eventExit)
	last.Code = &code
	r.tell(last)
	r.events.close()
	if failed := text.write(r.figures.text()); failed != nil {
		r.say("%v", failed)
	}
	return err
}

// held gives the code that the user wants to the error that somebody else has the key.
func (r *running) held(err error) error {
	switch {
	case err == nil || codeOf(err) != exitTaken || !errors.Is(err, redlock.ErrTaken):
		return err
	case r.heldExit == 0:
		return nil // whoever wants that wants to hear nothing
	}
	return exit(r.heldExit, err)
}

// options are those of every acquire.
func (r *running) options() []redlock.AcquireOption {
	wait := r.wait
	if r.once {
		wait = 0
	}
	options := []redlock.AcquireOption{redlock.WithMaxWait(wait)}
	if r.maxHold != 0 {
		options = append(options, redlock.WithMaxHold(r.maxHold))
	}
	return options
}

// owner is how others see who has the key: report@web-7/4211.
func (r *running) owner() string {
	host, _ := os.Hostname() // unknown: ""
	return inspect.Printable(fmt.Sprintf("%s@%s/%d", filepath.Base(r.program.Path), host, os.Getpid()))
}

// await waits for a lock, unless a signal comes that ends programs. The context has ended then.
func (r *running) await(ctx context.Context, obtain func() (held, error)) (held, error) {
	r.notify("STATUS=waiting for " + r.key)
	defer r.endOnSignal()()
	end := r.tellWait(ctx)
	lock, err := obtain()
	end(err == nil)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // and closing the Locker releases the lock
	}
	return lock, err
}

// endOnSignal ends the context when a signal comes that ends programs, until stop is called.
func (r *running) endOnSignal() (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case s := <-r.signals:
				if err := ending(s); err != nil {
					r.cancel(err)
					return
				}
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-over })
}

// ending is the error of a signal that ends programs; nil: it does not.
func ending(s os.Signal) error {
	if by, ok := s.(syscall.Signal); ok && supervise.Ends(s) {
		return exit(128+int(by), interrupted(by))
	}
	return nil
}

// term does what a lock was taken for, and lets go of it when nothing of that runs any more.
func (r *running) term(ctx context.Context, lock held, do func() error) error {
	since, until := time.Now(), lock.Until().UTC()
	had := r.event(eventAcquired)
	had.Slots, had.Fence, had.Until = slots(lock), lock.Fence(), &until
	r.tell(had)
	r.notify("READY=1\nSTATUS=has " + r.key)
	err := do()
	switch {
	case errors.Is(err, supervise.ErrGuard):
		_ = lock.Abandon() // something of the program may run
		return err
	case !wasLost(err) && !r.keep(lock, since):
		_ = lock.Abandon()
		return err
	}
	return r.release(ctx, lock, err)
}

// wasLost reports whether an error says that the lock was lost. A program may return that code itself.
func wasLost(err error) bool {
	var own *verdict
	return codeOf(err) == exitLost && !errors.As(err, &own)
}

// release releases a lock. The error is that of the program, or says that the lock was lost while
// it ran.
func (r *running) release(ctx context.Context, lock held, err error) error {
	end := lock.Release()
	lost := errors.Is(end, redlock.ErrLost)
	switch {
	case end == nil:
		released := r.event(eventReleased)
		released.Fence = lock.Fence()
		r.tell(released)
	case wasLost(err) || r.onLost == onLostReport:
	case r.alone && lost:
		r.say("%s was lost before it was released", &r.target)
	case lost && r.revoked(ctx, lock):
		return exitf(exitLost, "the lock on %s was revoked while the program ran: nobody else can have had it meanwhile", &r.target)
	case lost:
		return exitf(exitLost, "the program was not alone to its end: %w", end)
	default:
		r.say("%s is free when its lease ends, by %s: %s", &r.target, lock.Until().Format(time.TimeOnly), spoken(end))
	}
	return err
}

// revoked reports whether an operator has revoked the lock, and kept everybody else out since: what
// stands in its place before the lease ends has come from there.
func (r *running) revoked(ctx context.Context, lock held) bool {
	nodes, err := r.settings.open()
	if err != nil {
		return false
	}
	defer closeNodes(nodes)
	until := r.figures.deadline()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	report, err := inspect.Status(ctx, nodes, inspect.StatusOptions{Settings: r.settings.Settings, Keys: r.keys})
	if err != nil || !time.Now().Before(until) {
		return false
	}
	of := slots(lock)
	return slices.ContainsFunc(report.Keys, func(k inspect.KeyStatus) bool {
		return k.State == inspect.KeyRevoked || slices.ContainsFunc(k.Slots, func(s inspect.KeyStatus) bool {
			return s.State == inspect.KeyRevoked && slices.Contains(of, *s.Slot)
		})
	})
}

// keep keeps a lock for as long as it is to be held at least. It reports false if that ended
// before: by a signal, or because the lock was lost. Then nothing has to be released.
func (r *running) keep(lock held, since time.Time) bool {
	left := time.Until(since.Add(r.atLeast))
	if left <= 0 {
		return true
	}
	for over := time.After(left); ; {
		select {
		case <-over:
			return true
		case <-lock.Context().Done():
			return false
		case s := <-r.signals:
			if supervise.Ends(s) {
				return false
			}
		}
	}
}

// under runs a program under a lock. The error is nil, a verdict with the program's own code, or
// says why that was not all.
func (r *running) under(ctx context.Context, lock held, p supervise.Program) error {
	file, err := r.leaseFile(lock.Fence())
	if err != nil {
		return err
	}
	p.Env = r.environment(lock, file.Name())
	result, err := supervise.Run(ctx, lock, p, supervise.Options{
		TTL: r.settings.TTL, Grace: r.grace, Signal: r.signal, Report: r.onLost == onLostReport,
		Foreground: r.foreground == "yes" || r.foreground == "auto" && supervise.InForeground(),
		Alone:      true, Signals: r.signals, File: file, Events: r.tells(lock.Fence()),
	})
	var at *os.PathError
	switch {
	case errors.Is(err, supervise.ErrGuard):
		return exitf(exitLost, "%w; %s is free when its lease ends, by %s", err, &r.target, lock.Until().Format(time.TimeOnly))
	case errors.As(err, &at) && at.Op == "exec":
		return exit(execCode(err), err)
	case errors.As(err, &at):
		return noRoom(err)
	case err != nil:
		return err
	case !result.Started && result.Signal != 0:
		return exit(result.Code, interrupted(result.Signal))
	case !result.Started:
		return exitf(exitUnavailable, "the lock on %s was nearly over when it was had, so nothing was run: nodes, or this machine, are too slow for a TTL of %v", &r.target, r.settings.TTL)
	case result.Lost && r.onLost != onLostReport:
		if r.revoked(ctx, lock) {
			return exitf(exitLost, "the lock on %s was revoked: the program was stopped, and nobody else can have had it meanwhile", &r.target)
		}
		return exitf(exitLost, "the lock on %s was lost: the program was stopped", &r.target)
	case result.Code != 0:
		return &verdict{result.Code}
	}
	return nil
}
