package integration

import (
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/proxy"
	"github.com/quorumlock/quorumlock/test/ripe"
)

// longest is the longest lease of these tests: what a quarantine takes.
const longest = 3 * time.Second

// trio are three servers of a test's own, each behind a proxy that stays where it is.
type trio struct {
	*site
	servers [3]*server.Process
	ways    [3]*proxy.Proxy
}

// onTrio runs the test with the guard over those clients, and without it over the first of them: there
// two holders have to be seen, or the test does not show what the guard is for.
func onTrio(t *testing.T, over []client, setup server.Setup, test func(t *trio, guarded bool)) {
	t.Helper()
	processes := needProcesses(t)
	if _, err := exec.LookPath("gcc"); setup.Clock && err != nil {
		t.Skip(server.ErrNoCompiler)
	}
	for i, c := range over {
		for _, guarded := range []bool{false, true} {
			name := c.name + " without the guard"
			if guarded {
				name = c.name + " with the guard"
			} else if i > 0 {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				three := &trio{site: &site{T: t, kind: processes, client: c, key: "k", down: map[int]bool{}, paused: map[int]bool{}, harmed: true}}
				for i := range three.servers {
					three.servers[i] = launch(t, setup)
					way, err := proxy.New(three.servers[i].Addr())
					must(t, err)
					t.Cleanup(func() { _ = way.Close() })
					three.ways[i] = way
				}
				test(three, guarded)
			})
		}
	}
}

func launch(t *testing.T, setup server.Setup) *server.Process {
	t.Helper()
	p, err := setup.Launch()
	must(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// addrs are where clients reach the three.
func (t *trio) addrs() (addrs []string) {
	for _, way := range t.ways {
		addrs = append(addrs, way.Addr())
	}
	return addrs
}

// guardedLocker is a Locker on the three, which vote from the first time on.
func (t *trio) guardedLocker(guard redlock.Option, first bool) *redlock.Locker {
	t.Helper()
	options := []redlock.Option{redlock.WithTTL(longest), redlock.WithNodeTimeout(longest / 3)}
	if guard != nil {
		options = append(options, guard)
	}
	locker := t.lockerOn(t.addrs(), options...)
	if guard != nil && first {
		t.must(ripe.Servers(t.Context(), t.addrs(), memory.Settings{Longest: longest}, ""))
	}
	return locker
}

// try tries once; nil: a node answered late for the short time-outs, or its clock was read too slowly.
func (t *trio) try(locker *redlock.Locker, key string) *redlock.Lock {
	t.Helper()
	lock, err := locker.TryAcquire(t.Context(), key)
	if errors.Is(err, redlock.ErrNoQuorum) {
		return nil
	}
	t.must(err)
	return lock
}

// meet lets the locker find out about all nodes, with a key of its own.
func (t *trio) meet(locker *redlock.Locker) {
	t.Helper()
	t.eventually("all nodes vote", func() bool {
		lock := t.try(locker, "meeting "+t.Name())
		if lock == nil {
			return false
		}
		defer lock.Release() //nolint:errcheck // a busy machine may be too late for it, and the next try finds the key taken
		t.eventually("all nodes answer", func() bool { return !anyVote(lock, "pending") })
		return !anyVote(lock, "failed")
	})
}

func anyVote(lock *redlock.Lock, answer string) bool {
	return slices.ContainsFunc(lock.Votes(), func(v redlock.Vote) bool { return v.Answer == answer })
}

// hold takes the lock at nodes 2 and 3 alone, as when node 1 is cut off for a moment.
func (t *trio) hold(locker *redlock.Locker) *redlock.Lock {
	t.Helper()
	t.meet(locker)
	t.must(t.ways[0].Refuse())
	var lock *redlock.Lock
	t.eventually("the other two vote", func() bool { lock = t.try(locker, t.key); return lock != nil })
	t.eventually("node 1 has failed", func() bool { return anyVote(lock, "failed") })
	t.must(t.ways[0].Accept())
	return lock
}

// contend lets another process try for the lock again and again while it is held, and
// says what came of that.
func (t *trio) contend(locker *redlock.Locker, holder *redlock.Lock, guarded bool) {
	t.Helper()
	both := false
	var last error
	for holder.Valid() && !both {
		second, err := locker.TryAcquire(t.Context(), t.key)
		last = err
		// In this order: the second is a holder, and the first is one still.
		both = err == nil && second.Valid() && holder.Valid()
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // between two tries
	}
	switch {
	case both && guarded:
		t.Errorf("with the guard there are two holders")
	case !both && !guarded:
		t.Errorf("without the guard there is one holder (%v): this does not show what the guard is for", last)
	case !guarded:
		return
	}
	var third *redlock.Lock
	t.eventually("the quarantine is over", func() bool {
		third, last = locker.Acquire(t.Context(), t.key, redlock.WithMaxWait(patience))
		return !errors.Is(last, redlock.ErrNoQuorum) // as of a node that answers late
	})
	t.must(last)
	t.release(third)
}

func guardIf(guarded bool) redlock.Option {
	if guarded {
		return redlock.WithRestartGuard(longest)
	}
	return nil
}

func TestANodeThatIsKilledAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	onTrio(t, clients, server.Setup{}, func(t *trio, guarded bool) {
		one, two := t.guardedLocker(guardIf(guarded), true), t.guardedLocker(guardIf(guarded), false)
		t.meet(two)
		holder := t.hold(one)
		t.must(t.servers[1].Kill())
		t.must(t.servers[1].Start())
		t.contend(two, holder, guarded)
	})
}

// Redis copies to its replicas after it has answered. This one has lost its link before
// the vote, and is promoted without it.
func TestAReplicaThatLacksAVoteIsPromoted(t *testing.T) {
	t.Parallel()
	onTrio(t, clients, server.Setup{}, func(t *trio, guarded bool) {
		replica := launch(t.T, server.Setup{})
		t.must(replica.Follow(t.servers[1]))
		one, two := t.guardedLocker(guardIf(guarded), true), t.guardedLocker(guardIf(guarded), false)
		t.meet(two)
		t.must(replica.Promote())
		holder := t.hold(one)
		t.must(t.servers[1].Kill())
		t.ways[1].Move(replica.Addr())
		t.contend(two, holder, guarded)
	})
}

// A server whose clock is set forward forgets leases early.
func TestANodesClockIsSetForward(t *testing.T) {
	t.Parallel()
	onTrio(t, clients[:1], server.Setup{Clock: true}, func(t *trio, guarded bool) {
		var guard redlock.Option
		if guarded {
			guard = redlock.WithClockGuard(longest)
		}
		one, two := t.guardedLocker(guard, false), t.guardedLocker(guard, false)
		t.meet(two)
		holder := t.hold(one)
		t.must(t.servers[1].StepClock(time.Minute))
		t.contend(two, holder, guarded)
	})
}

// brisk is the TTL of the tests that wait for many quarantines.
const brisk = time.Second

// A batch is several commands, and a server may forget between any two of them. Nobody's
// connection is cut then, so a look at the server that stands in front of a vote says nothing
// about the vote.
func TestANodeThatForgetsInTheMiddleOfABatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		what   string
		forget func(t *trio, empty *server.Process)
	}{
		{"FLUSHALL", func(t *trio, _ *server.Process) {
			_, err := t.servers[1].Do("FLUSHALL")
			t.must(err)
		}},
		{"REPLICAOF there and back", func(t *trio, empty *server.Process) {
			t.must(t.servers[1].Turn(empty))
		}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			onTrio(t, clients[:1], server.Setup{}, func(t *trio, guarded bool) {
				empty := launch(t.T, server.Setup{Args: []string{"--repl-diskless-sync-delay", "0"}})
				patient.AtScales(t, func(scale time.Duration) error {
					ttl := scale * brisk
					options := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl / 2), redlock.WithFences()}
					if guarded {
						options = append(options, redlock.WithRestartGuard(ttl))
					}
					one, two := t.lockerOn(t.addrs(), options...), t.lockerOn(t.addrs(), options...)
					if guarded {
						t.must(ripe.Servers(t.Context(), t.addrs(), memory.Settings{Longest: ttl}, ""))
					}
					both := 0
					for n, boundaries := 0, 1; n < boundaries; n++ {
						var second bool
						var err error
						if second, boundaries, err = t.breakIn(one, two, n, func() { tt.forget(t, empty) }); err != nil {
							return err
						}
						if second {
							both++
						}
						if second && guarded {
							t.Errorf("with the guard there are two holders when the node forgets behind %d commands of %d", n, boundaries-1)
						}
					}
					if both == 0 && !guarded { // a busy machine may be too late for the first one's lease
						return errors.New("without the guard there is one holder: this does not show what the guard is for")
					}
					return nil
				})
			})
		})
	}
}

// breakIn has one take the lock at nodes 2 and 3, and two try for it while node 2 forgets
// behind n commands of two's batch. It reports whether both held the lock then, and how many
// boundaries that batch has. An error: the lease of one has ended before.
func (t *trio) breakIn(one, two *redlock.Locker, n int, forget func()) (both bool, boundaries int, err error) {
	t.Helper()
	t.settle(one)
	t.eventually("no node has the key of the round before", func() bool {
		return !slices.ContainsFunc(t.servers[:], func(s *server.Process) bool {
			there, err := s.Do("EXISTS", t.key)
			return err != nil || there != "0"
		})
	})
	holder := t.hold(one)
	t.settle(two)
	end := t.ways[1].Interrupt(func(commands [][]string) int {
		if !slices.ContainsFunc(commands, func(words []string) bool { return words[0] == "SET" && words[1] == t.key }) {
			return -1
		}
		boundaries = len(commands) + 1
		return min(n, len(commands))
	}, forget)
	second, err := two.TryAcquire(t.Context(), t.key)
	both = err == nil && second.Valid() && holder.Valid()
	asked := end()
	_ = holder.Release() // node 2 may have forgotten it
	if second != nil {
		_ = second.Release()
	}
	if !asked {
		return false, 0, errors.Join(errors.New("node 2 was not asked"), err)
	}
	return both, boundaries, nil
}

// settle returns when all nodes vote for the locker.
func (t *trio) settle(locker *redlock.Locker) {
	t.Helper()
	t.eventually("all nodes vote", func() bool {
		lock, err := locker.TryAcquire(t.Context(), "settling "+t.Name())
		if err != nil {
			return false
		}
		defer lock.Release() //nolint:errcheck // a busy machine may be too late for it, and the next try finds the key taken
		t.eventually("all nodes answer", func() bool { return !anyVote(lock, "pending") })
		return !anyVote(lock, "failed") && !anyVote(lock, "taken")
	})
}
