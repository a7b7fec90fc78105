//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/supervise"
)

// A running is one run of a program under a lock, or under several, one after the other.
type running struct {
	*tool
	key     string
	program supervise.Program // without a Path: none

	wait, grace, maxHold, atLeast      time.Duration
	once, restart, exposeToken, elects bool
	heldExit, statusFD                 int
	signalName, foreground, onLost     string
	signal                             syscall.Signal

	signals <-chan os.Signal
	cancel  context.CancelCauseFunc // of the context under which locks are taken
	events  *eventLog
	mute    bool // the init system does not listen, and that was said
}

// run checks what was asked for, takes the lock, and runs the program.
func (r *running) run(ctx context.Context, args []string) error {
	if err := r.check(args); err != nil {
		return err
	}
	return r.over(ctx, func(ctx context.Context, locker *redlock.Locker) error {
		lead := func(lock *redlock.Lock) error {
			return r.term(ctx, lock, func() error { return r.under(ctx, lock, r.program) })
		}
		if r.restart {
			return r.campaigns(ctx, election.New(locker, r.key), r.owner(), nil, lead)
		}
		r.notify("STATUS=waiting for " + r.key)
		lock, err := r.acquire(ctx, func() (*redlock.Lock, error) {
			return r.take(ctx, locker)
		})
		if err != nil {
			return err
		}
		return lead(lock)
	})
}

// take takes the key, or waits for it. One try goes on while nobody is known to have the key: some
// host has to get it. After one TTL, what crashed hosts have left is gone.
func (r *running) take(ctx context.Context, locker *redlock.Locker) (*redlock.Lock, error) {
	options := append(r.options(), redlock.WithOwner(r.owner()))
	for began := time.Now(); ; {
		lock, err := locker.Acquire(ctx, r.key, options...)
		if !errors.Is(err, redlock.ErrContended) || r.wait > 0 && !r.once || ctx.Err() != nil || time.Since(began) > r.settings.TTL {
			return lock, err
		}
	}
}

// over gives a verb a Locker and the signals, and tells how it ends.
func (r *running) over(ctx context.Context, do func(context.Context, *redlock.Locker) error) (err error) {
	nodes, err := r.settings.open()
	if err != nil {
		return err
	}
	locker, err := redlock.New(nodes, r.settings.locker()...)
	if err != nil {
		closeNodes(nodes)
		return err
	}
	signals, stop := supervise.Notify()
	defer stop()
	r.signals = signals
	r.forwards.Store(true) // from here on a signal is in signals
	if context.Cause(ctx) == nil {
		if r.events, err = openEvents(r.statusFD, &runEvent{Event: eventWaiting, Key: r.key}); err == nil {
			ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
			err = do(ctx, locker)
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
	r.events.write(&runEvent{Event: eventExit, Key: r.key, Code: &code})
	r.events.close()
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
	options := []redlock.AcquireOption{redlock.WithRenewal(), redlock.WithMaxWait(wait)}
	if r.maxHold != 0 {
		options = append(options, redlock.WithMaxHold(r.maxHold))
	}
	return options
}

// owner is how others see who has the key: report@web-7/4211.
func (r *running) owner() string {
	host, _ := os.Hostname() // unknown: ""
	name := fmt.Sprintf("%s@%s/%d", filepath.Base(r.program.Path), host, os.Getpid())
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, name)
}

// acquire takes a lock, unless a signal comes that ends programs. The context has ended then.
func (r *running) acquire(ctx context.Context, take func() (*redlock.Lock, error)) (*redlock.Lock, error) {
	defer r.endOnSignal()()
	lock, err := take()
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
func (r *running) term(ctx context.Context, lock *redlock.Lock, do func() error) error {
	since, until := time.Now(), lock.Until().UTC()
	r.events.write(&runEvent{Event: eventAcquired, Key: r.key, Fence: lock.Fence(), Until: &until})
	r.notify("READY=1\nSTATUS=has " + r.key)
	err := do()
	switch {
	case errors.Is(err, supervise.ErrGuard):
		_ = lock.Abandon() // something of the program may run
		return err
	case codeOf(err) != exitLost && !r.keep(lock, since):
		_ = lock.Abandon()
		return err
	}
	return r.release(ctx, lock, err)
}

// release releases a lock. The error is that of the program, or says that the lock was lost while it
// ran.
func (r *running) release(ctx context.Context, lock *redlock.Lock, err error) error {
	switch end := lock.Release(context.WithoutCancel(ctx)); {
	case end == nil:
		r.events.write(&runEvent{Event: eventReleased, Key: r.key, Fence: lock.Fence()})
	case codeOf(err) == exitLost || r.onLost == onLostReport:
	case errors.Is(end, redlock.ErrLost):
		return exitf(exitLost, "the program was not alone to its end: %w", end)
	default:
		r.say("%q is free when its lease ends, by %s: %v", r.key, lock.Until().Format(time.TimeOnly), end)
	}
	return err
}

// keep keeps a lock for as long as it is to be held at least. It reports false if that ended before:
// by a signal, or because the lock was lost. Then nothing has to be released.
func (r *running) keep(lock *redlock.Lock, since time.Time) bool {
	left := time.Until(since.Add(r.atLeast))
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
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

// under runs a program under a lock. The error is nil, a verdict with the program's own code, or says
// why that was not all.
func (r *running) under(ctx context.Context, lock *redlock.Lock, p supervise.Program) error {
	file, err := supervise.NewLeaseFile(r.lockName(), lock.Fence(), r.getenv(leaseVariable))
	if err != nil {
		return exit(exitIO, fmt.Errorf("lease file: %w", err))
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
		return exitf(exitLost, "%w; %q is free when its lease ends, by %s", err, r.key, lock.Until().Format(time.TimeOnly))
	case errors.As(err, &at) && at.Op == "exec":
		return exit(execCode(err), err)
	case errors.As(err, &at):
		return exit(exitIO, fmt.Errorf("lease file: %w: set XDG_RUNTIME_DIR to a folder that has room", err))
	case err != nil:
		return err
	case !result.Started && result.Signal != 0:
		return exit(result.Code, interrupted(result.Signal))
	case !result.Started:
		return exitf(exitUnavailable, "the lock on %q was nearly over when it was had, so nothing was run: nodes, or this machine, are too slow for a TTL of %v", r.key, r.settings.TTL)
	case result.Lost && r.onLost != onLostReport:
		return exitf(exitLost, "the lock on %q was lost: the program was stopped", r.key)
	case result.Code != 0:
		return &verdict{result.Code}
	}
	return nil
}

// environment is what the program gets, which has nothing of a lock around this one.
func (r *running) environment(lock *redlock.Lock, file string) []string {
	const fence, until, token = "QUORUMLOCK_FENCE", "QUORUMLOCK_UNTIL", "QUORUMLOCK_TOKEN" //nolint:gosec // the name of a variable
	own := []string{keyVariable, fence, until, token, leaseVariable, socketVariable, variable("at-least"), variable("status-fd")}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(own, name)
	})
	env = append(env, keyVariable+"="+r.key, until+"="+lock.Until().UTC().Format(time.RFC3339Nano), leaseVariable+"="+file)
	if r.settings.Fences {
		env = append(env, fmt.Sprintf("%s=%d", fence, lock.Fence()))
	}
	if r.exposeToken {
		env = append(env, token+"="+lock.Token())
	}
	return env
}
