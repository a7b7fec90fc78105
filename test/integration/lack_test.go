package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

// A lasting lock is one of any kind.
type lasting interface {
	released
	confirmer
	Extend(ctx context.Context, ttl time.Duration) error
}

// A taker takes a lock of some kind.
type taker func(t *testing.T, l *redlock.Locker, key string) (lasting, error)

func alone(t *testing.T, l *redlock.Locker, key string) (lasting, error) {
	return l.Acquire(t.Context(), key)
}

func reads(t *testing.T, l *redlock.Locker, key string) (lasting, error) {
	return l.AcquireShared(t.Context(), key)
}

func downgraded(t *testing.T, l *redlock.Locker, key string) (lasting, error) {
	writer, err := l.Acquire(t.Context(), key)
	if err != nil {
		return nil, err
	}
	return writer.Downgrade(t.Context())
}

func upgraded(t *testing.T, l *redlock.Locker, key string) (lasting, error) {
	reader, err := l.AcquireShared(t.Context(), key)
	if err != nil {
		return nil, err
	}
	writer, err := upgrade(t.Context(), reader)
	if err != nil {
		return nil, errors.Join(err, reader.Release())
	}
	return writer, nil
}

func several(t *testing.T, l *redlock.Locker, key string) (lasting, error) {
	return l.AcquireAll(t.Context(), []string{key, key + ":2"})
}

// permit takes n of so many permits.
func permit(n, of int) taker {
	return func(t *testing.T, l *redlock.Locker, key string) (lasting, error) {
		s, err := l.Semaphore(key, of)
		if err != nil {
			return nil, err
		}
		return s.AcquireN(t.Context(), n)
	}
}

// The kinds of locks and guards, what they need, and in which two ways they are taken by turns.
var lackKinds = []struct {
	name      string
	features  []*acl.Feature
	options   []redlock.Option
	one, next taker
}{
	{"plain", []*acl.Feature{acl.Locks, acl.WakeUps, acl.Native, acl.Turns}, nil, alone, alone},
	{"fair", []*acl.Feature{acl.Locks, acl.WakeUps, acl.Turns}, []redlock.Option{redlock.WithFairness()}, alone, alone},
	{"readers", []*acl.Feature{acl.Locks, acl.WakeUps, acl.Shared}, nil, reads, upgraded},
	{"writers", []*acl.Feature{acl.Shared}, nil, reads, alone},
	{"several keys", []*acl.Feature{acl.Locks, acl.WakeUps, acl.Sets}, nil, several, several},
	{"permits", []*acl.Feature{acl.Locks, acl.WakeUps, acl.Semaphore}, nil, permit(1, 2), permit(2, 2)},
	{"fences", []*acl.Feature{acl.Locks, acl.WakeUps, acl.Fences, acl.Turns}, []redlock.Option{redlock.WithFences()}, alone, alone},
	{"fair, with fences", []*acl.Feature{acl.Turns, acl.Fences}, []redlock.Option{redlock.WithFairness(), redlock.WithFences()}, alone, alone},
	{"deadlocks", []*acl.Feature{acl.Deadlocks}, []redlock.Option{redlock.WithDeadlockDetection(time.Second)}, alone, alone},
	{"guard", []*acl.Feature{acl.RestartGuard}, []redlock.Option{redlock.WithRestartGuard(time.Minute)}, alone, alone},
	{"replicas", []*acl.Feature{acl.Replicated}, []redlock.Option{redlock.WithDurability(redlock.Durability{Replicas: 1})}, alone, alone},
	{"disk", []*acl.Feature{acl.Durable}, []redlock.Option{redlock.WithDurability(redlock.Durability{Disk: true})}, alone, alone},
}

// live has two Lockers take a key from each other, and prolong and release it. Who waits listens, if it
// can. The error is of the first acquire: nothing may fail behind that.
func live(t *testing.T, ours, theirs *redlock.Locker, one, next taker, listens bool) error {
	t.Helper()
	key := t.Name()
	first, err := one(t, ours, key)
	if err != nil {
		return err
	}
	for _, take := range []taker{next, one} {
		if err := first.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("the lock was taken, and Extend = %v", err)
		}
		waits := make(chan error, 1)
		var second lasting
		go func() {
			var err error
			second, err = take(t, theirs, key)
			waits <- err
		}()
		if name := t.Name(); !strings.HasSuffix(name, "/readers") && !strings.HasSuffix(name, "/permits") { // these may share it
			patient.Until(t, "the other one waits", func() bool {
				s := theirs.Stats()
				return s.Waiting > 0 && (s.Subscriptions > 0 || !listens) || len(waits) > 0
			})
		}
		if err := first.Release(); err != nil {
			t.Errorf("the lock was taken, and Release = %v", err)
		}
		if err := <-waits; err != nil {
			t.Fatalf("the lock was taken, and who waited for it = %v", err)
		}
		first = second
	}
	if err := first.Release(); err != nil {
		t.Errorf("who has waited has the lock, and Release = %v", err)
	}
	return nil
}

// Where a server lacks a command, or its user may not run it, either all works as ever, or the first
// call says which command it is, and what to do about it.
func TestACommandThatIsMissingIsToldAtTheFirstCallOrNotNeeded(t *testing.T) {
	needProcesses(t)
	var commands []string
	for _, kind := range lackKinds {
		for _, feature := range kind.features {
			for _, command := range feature.Commands {
				if !slices.Contains(commands, command) {
					commands = append(commands, command)
				}
			}
		}
	}
	shared := process(t)
	users := look(t, shared)
	known := func(command string) bool {
		infos, err := users.Command(t.Context()).Result()
		must(t, err)
		return infos[command] != nil
	}
	for n, command := range commands {
		if !known(command) {
			continue
		}
		for _, way := range []string{"renamed", "forbidden"} {
			addr, advice := shared.Addr(), "+"+command
			if way == "renamed" {
				addr, advice = process(t, "--rename-command", command, "").Addr(), "rename-command"
			} else {
				must(t, users.Do(t.Context(), "ACL", "SETUSER", command, "on", ">secret", "~*", "&*", "+@all", "-"+command).Err())
				addr = command + ":secret@" + addr
			}
			for k, kind := range lackKinds {
				if !slices.ContainsFunc(kind.features, func(f *acl.Feature) bool { return slices.Contains(f.Commands, command) }) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", command, way, kind.name), func(t *testing.T) {
					t.Parallel()
					var lockers [2]*redlock.Locker
					for i := range lockers {
						c := clients[(n+k+i)%len(clients)]
						options := append([]redlock.Option{redlock.WithMaxWait(patience), redlock.WithKeyPrefix(kind.name)}, kind.options...)
						lockers[i] = newLocker(t, c.reach(t, "redis://"+addr), options...)
					}
					err := live(t, lockers[0], lockers[1], kind.one, kind.next, !slices.Contains(acl.WakeUps.Commands, command))
					if err != nil && (!errors.Is(err, redlock.ErrNode) && !mentions(err, "NOPERM") || !mentions(err, advice) || !strings.Contains(strings.ToLower(err.Error()), command)) {
						t.Errorf("the first call = %v, want ErrNode that names %s and has %q", err, command, advice)
					}
				})
			}
		}
	}
}

// A right that is taken away while locks are held is named by what fails for it, in a script, too.
// From then on the first call says so, and nobody gets a lock, until the right is given back.
func TestARightThatIsTakenAwayLaterIsNamed(t *testing.T) {
	t.Parallel()
	onProcessesOver(t, one(0), "", func(t *testing.T, c client) {
		p := process(t)
		users := look(t, p)
		for _, tt := range []struct {
			command string
			fails   func(l *redlock.Locker, held *redlock.Lock) error
		}{
			{"del", func(_ *redlock.Locker, held *redlock.Lock) error { return held.Release() }},
			{"get", func(_ *redlock.Locker, held *redlock.Lock) error { return held.Release() }},
			{"pexpire", func(_ *redlock.Locker, held *redlock.Lock) error { return held.Extend(t.Context(), time.Hour) }},
			{"zcard", func(l *redlock.Locker, _ *redlock.Lock) error {
				return failed(l.TryAcquireShared(t.Context(), "another"))
			}},
		} {
			allow := func(rule string) {
				t.Helper()
				must(t, users.Do(t.Context(), "ACL", "SETUSER", tt.command, "on", ">secret", "~*", "&*", "+@all", rule).Err())
			}
			allow("+@all")
			locker := newLocker(t, c.reach(t, "redis://"+tt.command+":secret@"+p.Addr()))
			held, err := locker.TryAcquire(t.Context(), tt.command)
			must(t, err)
			allow("-" + tt.command)
			if err := tt.fails(locker, held); !mentions(err, "allow +"+tt.command) {
				t.Errorf("without %s a lock that is held has got %v, want what to allow", tt.command, err)
			}
			again := func() error {
				reader, err := locker.TryAcquireShared(t.Context(), "more")
				if err == nil {
					err = reader.Release()
				}
				return err
			}
			patient.Until(t, "the first call says that "+tt.command+" is missing", func() bool {
				err := again()
				return errors.Is(err, redlock.ErrNode) && mentions(err, "allow +"+tt.command)
			})
			allow("+" + tt.command)
			patient.Until(t, "locks are given again", func() bool { return again() == nil })
		}
	})
}
