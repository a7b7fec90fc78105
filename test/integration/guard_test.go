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
				three := &trio{site: &site{T: t, kind: processes, client: c, key: "k", harmed: true}}
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
