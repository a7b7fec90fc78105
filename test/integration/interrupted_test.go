package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// brisk is the TTL of the tests that wait for many quarantines.
const brisk = time.Second

// A batch is several commands, and a server may forget between any two of them. Nobody's
// connection is cut then, so a look at the server that stands in front of a vote says nothing
// about the vote.
func TestANodeThatForgetsInTheMiddleOfABatch(t *testing.T) {
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
			onTrio(t, server.Setup{}, func(t *trio, guarded bool) {
				empty := launch(t.T, server.Setup{Args: []string{"--repl-diskless-sync-delay", "0"}})
				options := []redlock.Option{redlock.WithTTL(brisk), redlock.WithNodeTimeout(brisk / 2), redlock.WithFences()}
				if guarded {
					options = append(options, redlock.WithRestartGuard(brisk))
				}
				one, two := t.lockerOn(t.addrs(), options...), t.lockerOn(t.addrs(), options...)
				if guarded {
					t.must(one.AdmitNewNodes(t.Context()))
				}
				both := 0
				for n, boundaries := 0, 1; n < boundaries; n++ {
					var second bool
					second, boundaries = t.breakIn(one, two, n, func() { tt.forget(t, empty) })
					if second {
						both++
					}
					if second && guarded {
						t.Errorf("with the guard there are two holders when the node forgets behind %d commands of %d", n, boundaries-1)
					}
				}
				if both == 0 && !guarded {
					t.Error("without the guard there is one holder: this does not show what the guard is for")
				}
			})
		})
	}
}

// breakIn has one take the lock at nodes 2 and 3, and two try for it while node 2 forgets
// behind n commands of two's batch. It reports whether both held the lock then, and how many
// boundaries that batch has.
func (t *trio) breakIn(one, two *redlock.Locker, n int, forget func()) (both bool, boundaries int) {
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
	if !end() {
		t.Fatalf("TryAcquire = %v, and node 2 was not asked", err)
	}
	_ = holder.Release(t.Context()) // node 2 may have forgotten it
	if second != nil {
		_ = second.Release(t.Context())
	}
	return both, boundaries
}

// settle returns when all nodes vote for the locker.
func (t *trio) settle(locker *redlock.Locker) {
	t.Helper()
	t.eventually("all nodes vote", func() bool {
		lock, err := locker.TryAcquire(t.Context(), "settling "+t.Name())
		if err != nil {
			return false
		}
		defer t.release(lock)
		t.eventually("all nodes answer", func() bool { return !anyVote(lock, redlock.Pending) })
		return !anyVote(lock, redlock.Failed) && !anyVote(lock, redlock.Taken)
	})
}
