package integration

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/proxy"
	"github.com/quorumlock/quorumlock/test/ripe"
)

// A ruled site is three servers whose user may do what the rules say, and two processes that lock
// there.
type ruled struct {
	*testing.T
	first, second *redlock.Locker
	looks         []*redis.Client
	addrs         []string
	seen          eventLog
}

func newRuled(t *testing.T, c client, rules []string, options ...redlock.Option) *ruled {
	r := &ruled{T: t}
	var urls []string
	for range 3 {
		p := process(t, slices.Concat([]string{"--user", "locks", "on", ">secret"}, rules)...)
		urls, r.addrs = append(urls, "redis://locks:secret@"+p.Addr()), append(r.addrs, p.Addr())
		r.looks = append(r.looks, look(t, p))
	}
	options = append(slices.Clip(options), redlock.WithKeyPrefix("orders:"), redlock.WithNodeTimeout(generous), redlock.WithMaxWait(4*generous), redlock.WithHooks(redlock.Hooks{Node: func(e redlock.Event) {
		if e.Kind != redlock.NodeUp && e.Kind != redlock.NodeAdmitted {
			r.seen.note(e)
		}
	}}))
	for _, locker := range []**redlock.Locker{&r.first, &r.second} {
		nodes := c.reach(t, urls...)
		made, err := redlock.New(nodes, options...)
		must(t, err)
		*locker = made
		t.Cleanup(func() { must(t, (*locker).Close()) })
	}
	return r
}

// has waits until the servers have the key.
func (r *ruled) has(key string) {
	for _, look := range r.looks {
		patient.Until(r.T, "a server has "+key, func() bool { return look.Exists(r.Context(), key).Val() == 1 })
	}
}

// complaints are what the processes were told of nodes.
func (r *ruled) complaints() []redlock.Event {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	return slices.Clone(r.seen.events)
}

// A turn is one process that holds a lock, and another that waits for the same. The servers have the key
// told then, if it is not "".
type turn struct {
	hold, wait taker
	told       string
}

func (r *ruled) take(turn turn) {
	held, err := turn.hold(r.T, r.first, "42")
	must(r.T, err)
	must(r.T, held.Extend(r.Context(), time.Minute))
	waits := make(chan error, 1)
	go func() {
		next, err := turn.wait(r.T, r.second, "42")
		if err == nil {
			err = next.Release()
		}
		waits <- err
	}()
	patient.Until(r.T, "the other one waits, and listens unless a node forbids something", func() bool {
		s := r.second.Stats()
		return s.Waiting > 0 && (s.Subscriptions > 0 || r.complaints() != nil) || len(waits) > 0
	})
	if turn.told != "" {
		r.has(turn.told)
	}
	must(r.T, held.Release())
	must(r.T, <-waits)
}

// ring has two processes wait for each other.
func (r *ruled) ring() {
	a, err := r.first.Acquire(r.Context(), "a")
	must(r.T, err)
	b, err := r.second.Acquire(r.Context(), "b")
	must(r.T, err)
	ends := make(chan error, 2)
	wait := func(l *redlock.Locker, under *redlock.Lock, key string) {
		lock, err := l.Acquire(under.Context(), key)
		if lock != nil {
			err = errors.Join(err, lock.Release())
		}
		ends <- errors.Join(err, under.Release())
	}
	go wait(r.first, a, "b")
	go wait(r.second, b, "a")
	if one, other := <-ends, <-ends; !errors.Is(errors.Join(one, other), redlock.ErrDeadlock) || one != nil && other != nil {
		r.Errorf("of a ring of two the waits have ended with %v and %v, want one with ErrDeadlock", one, other)
	}
}

// The features, and what uses all that they need.
var ruledFeatures = []struct {
	name    string
	feature *acl.Feature
	options []redlock.Option
	turns   []turn
}{
	{"locks", acl.Locks, nil, []turn{{alone, alone, ""}}},
	{"fairness", acl.Turns, []redlock.Option{redlock.WithFairness()}, []turn{{alone, alone, "ql:line:{orders:42}"}}},
	{"detection", acl.Deadlocks, []redlock.Option{redlock.WithDeadlockDetection(100 * time.Millisecond)}, nil}, // see ring
	{"sets", acl.Sets, nil, []turn{{several, several, "ql:line:{orders:42}"}}},
	{"semaphores", acl.Semaphore, nil, []turn{{permit(1, 2), permit(2, 2), "ql:pool:{orders:42}"}, {permit(2, 2), permit(1, 2), ""}}},
	{"shared", acl.Shared, nil, []turn{{reads, alone, "ql:line:{orders:42}"}, {alone, reads, ""}, {upgraded, downgraded, ""}}},
	{"the guard", acl.RestartGuard, []redlock.Option{redlock.WithRestartGuard(time.Minute)}, []turn{{alone, alone, ""}}},
}

// A user with the rights of the table, and no others, can do what they are for, with fences and
// without, and no event says that something is missing.
func TestTheTableOfRightsIsEnough(t *testing.T) {
	t.Parallel()
	for n, tt := range ruledFeatures {
		for i, fenced := range []bool{false, true} {
			over := one(n + i)
			if tt.feature == acl.Locks {
				over = clients // whose own commands need rights, too
			}
			name, features, options := tt.name, []*acl.Feature{acl.Locks, acl.WakeUps, tt.feature}, tt.options
			if fenced {
				name, features, options = name+" with fences", append(features, acl.Fences), append(slices.Clip(options), redlock.WithFences())
			}
			onProcessesOver(t, over, name, func(t *testing.T, c client) {
				rules := acl.Rules("orders:", features...)
				r := newRuled(t, c, rules, options...)
				switch tt.feature {
				case acl.RestartGuard:
					must(t, ripe.Servers(t.Context(), r.addrs, memory.Settings{Longest: time.Minute}, "orders:", "locks", "secret"))
				case acl.Deadlocks:
					r.ring()
				}
				for _, turn := range tt.turns {
					r.take(turn)
				}
				if said := r.complaints(); tt.feature != acl.RestartGuard && said != nil {
					t.Errorf("with %q nodes say: %v", rules, said)
				}
			})
		}
	}
}

// Plain locks look at lines only because others may stand there: where that is forbidden from some
// moment on they do without, from the first wait on that is refused.
func TestPlainLocksWaitWhereLinesMayNotBeLookedAtAnyMore(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for _, command := range []string{"time", "zrangebyscore", "zscore"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			p := process(t, "--user", "locks", "on", ">secret", "~*", "&*", "+@all")
			way, err := proxy.New(p.Addr())
			must(t, err)
			t.Cleanup(func() { _ = way.Close() })
			var asked atomic.Bool
			way.Observe(func(commands [][]string) {
				for _, words := range commands {
					if slices.Contains(words, "ql:line:{k}") {
						asked.Store(true)
					}
				}
			})
			var lockers [2]*redlock.Locker
			for i, addr := range []string{p.Addr(), way.Addr()} {
				lockers[i] = newLocker(t, clients[0].reach(t, "redis://locks:secret@"+addr), redlock.WithMaxWait(patience))
				lock, err := lockers[i].TryAcquire(t.Context(), "first contact")
				must(t, err)
				must(t, lock.Release())
			}
			must(t, look(t, p).Do(t.Context(), "ACL", "SETUSER", "locks", "-"+command).Err())
			held, err := lockers[0].Acquire(t.Context(), "k")
			must(t, err)
			waits := make(chan error, 1)
			go func() {
				next, err := lockers[1].Acquire(t.Context(), "k")
				if err == nil {
					err = next.Release()
				}
				waits <- err
			}()
			patient.Until(t, "who waits has asked for a place in line", asked.Load)
			must(t, held.Release())
			must(t, <-waits)
		})
	}
}
