//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/redlock"
)

// A target is what run locks: a key, alone or beside other readers, several keys, or permits of a
// semaphore.
type target struct {
	keys          []string // in order
	shared        bool
	permits, take int // of a semaphore: how many there are, and how many are taken; 0: it is none
}

// A held is a lock of any kind.
type held interface {
	Context() context.Context
	Until() time.Time
	Valid() bool
	Fence() int64
	Token() string
	Release() error
	Abandon() error
}

func (t *target) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&t.shared, "shared", false, "take the key as a reader: beside other readers, and no writer")
	flags.IntVar(&t.permits, "permits", 0, "take a permit of the semaphore KEY, which has so `many`: all who use it say the same number")
	flags.IntVar(&t.take, "take", 1, "with --permits: take so `many` permits, or none")
}

// check finds what cannot be locked, before anything is sent.
func (t *target) check(flags *pflag.FlagSet) error {
	permits, take := flags.Changed("permits"), flags.Changed("take")
	if permits && t.permits == 0 {
		return exitf(exitUsage, "--permits: 0 permits let nobody in: want 1 to %d", inspect.MaxPermits)
	}
	semaphore := t.permits != 0 // by the flag, or its variable
	switch {
	case semaphore && (t.permits < 1 || t.permits > inspect.MaxPermits):
		return exitf(exitUsage, "--permits: %d is not between 1 and %d", t.permits, inspect.MaxPermits)
	case take && !semaphore:
		return exitf(exitUsage, "--take says how many of a semaphore's permits: give --permits, too")
	case semaphore && (t.take < 1 || t.take > t.permits):
		return exitf(exitUsage, "--take: %d is not between 1 and the %d of --permits", t.take, t.permits)
	case semaphore && t.shared:
		return exitf(exitUsage, "--shared and --permits: readers share a key, and permits are of a semaphore: give one of the two")
	case len(t.keys) > 1 && (semaphore || t.shared):
		return exitf(exitUsage, "%s: --shared and --permits take one KEY", t)
	}
	for i, key := range t.keys[1:] {
		if key == t.keys[i] {
			return exitf(exitUsage, "%q is there twice: name each key once", key)
		}
	}
	return nil
}

// String names it in messages.
func (t *target) String() string {
	quoted := make([]string, len(t.keys))
	for i, key := range t.keys {
		quoted[i] = strconv.Quote(key)
	}
	name := strings.Join(quoted, ", ")
	switch {
	case t.permits != 0 && t.take > 1:
		return fmt.Sprintf("%d permits of %s", t.take, name)
	case t.permits != 0:
		return "a permit of " + name
	}
	return name
}

// locks are what the nodes keep apart: who has one of these has a lock that this one waits for.
func (t *target) locks(prefix string) (names []string) {
	for _, key := range t.keys {
		if t.permits != 0 {
			key = "permits of " + key
		}
		names = append(names, prefix+key)
	}
	return names
}

// acquire takes it, or waits for it.
func (t *target) acquire(ctx context.Context, locker *redlock.Locker, options []redlock.AcquireOption) (held, error) {
	switch {
	case t.shared:
		return either(locker.AcquireShared(ctx, t.keys[0], options...))
	case t.permits != 0:
		semaphore, err := locker.Semaphore(t.keys[0], t.permits)
		if err != nil {
			return nil, err
		}
		return either(semaphore.AcquireN(ctx, t.take, options...))
	case len(t.keys) > 1:
		return either(locker.AcquireAll(ctx, t.keys, options...))
	}
	return either(locker.Acquire(ctx, t.keys[0], options...))
}

// either is a lock or an error: a nil lock is no held.
func either[L held](lock L, err error) (held, error) {
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// slots are the permits that a lock has.
func slots(lock held) []int {
	if lock, ok := lock.(*redlock.Lock); ok {
		return slices.Clone(lock.Slots())
	}
	return nil
}
