package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/patient"
)

// A site is what one test of the suite works on: five nodes of a kind, and a client.
type site struct {
	*testing.T
	kind   *kind
	client client
	key    string // nobody else's
	looks  []*redis.Client
	harmed bool // a node was down or paused: what it was sent may be anywhere
}

// onEach runs the test over every kind of nodes and every client. Kinds run at the
// same time, for they have nodes of their own.
func onEach(t *testing.T, test func(s *site)) {
	t.Helper()
	for _, k := range kinds {
		if k.missing != nil {
			continue // the line that TestMain prints says so
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range clients {
				t.Run(c.name, func(t *testing.T) { test(newSite(t, k, c)) })
			}
		})
	}
}

// onEachOnce runs the test over every kind of nodes and with every client, but not over all
// pairs of them: for what all clients should do alike, and all servers.
func onEachOnce(t *testing.T, test func(s *site)) {
	t.Helper()
	var there []*kind
	for _, k := range kinds {
		if k.missing == nil {
			there = append(there, k)
		}
	}
	for i, k := range there {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for j, c := range clients {
				if j%len(there) == i {
					t.Run(c.name, func(t *testing.T) { test(newSite(t, k, c)) })
				}
			}
		})
	}
}

func newSite(t *testing.T, k *kind, c client) *site {
	s := &site{T: t, kind: k, client: c, key: t.Name()}
	for _, node := range k.nodes {
		look := redis.NewClient(&redis.Options{Addr: node.Addr(), MaxRetries: 5, DisableIdentity: true, Protocol: 2})
		s.looks = append(s.looks, look)
		t.Cleanup(func() { _ = look.Close() })
	}
	return s
}

// patience is how long the suite waits for what must come at some time, and for a turn in a crowd: how
// many round trips that may take is for the tests of redlock to say, in virtual time. The lease that is
// long outlasts it, and so do pauses of that: what is left, or who is not woken, is seen.
const (
	patience = patient.Guard
	long     = 4 * patience
)

// The node time-outs of the suite. Machines that test are slow at times, so where
// every node answers none may be taken for silent; where a node is silent, a test
// waits for it.
const (
	generous = 3 * time.Second
	brief    = 500 * time.Millisecond
)

// locker makes a Locker on all nodes, over clients of its own, with a generous node
// time-out. Its leases end by themselves. The test closes it, after the nodes have been repaired.
func (s *site) locker(options ...redlock.Option) *redlock.Locker {
	s.Helper()
	return s.lockerOn(s.addrs(), options...)
}

func (s *site) lockerOn(addrs []string, options ...redlock.Option) *redlock.Locker {
	s.Helper()
	locker := newLocker(s.T, s.client.nodes(s.T, addrs), options...)
	s.Cleanup(func() {
		// A release of what a harmed node may still come to run goes on for one TTL,
		// longer than Close does: that is an error then, and no fault.
		if err := locker.Close(); err != nil && !s.harmed {
			s.Errorf("Close: %v", err)
		}
	})
	return locker
}

// acquire takes the site's key, or ends the test.
func (s *site) acquire(locker *redlock.Locker, options ...redlock.AcquireOption) *redlock.Lock {
	s.Helper()
	var lock *redlock.Lock
	s.eventually("a quorum answers in time", func() (answers bool) {
		var err error
		if lock, err = locker.TryAcquire(s.Context(), s.key, options...); errors.Is(err, redlock.ErrNoQuorum) {
			return false // the machine is busy
		}
		s.must(err)
		return true
	})
	return lock
}

// must ends the test if something that it needs has failed.
func (s *site) must(err error) {
	s.Helper()
	must(s.T, err)
}

// check fails the test if there is an error. It goes on.
func (s *site) check(err error, what string, args ...any) {
	s.Helper()
	if err != nil {
		s.Errorf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

// fails fails the test unless the error is the one that is wanted.
func (s *site) fails(err, want error, what string) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: %v, want %v", what, err, want)
	}
}

// failed is the error of a call that returns something beside it.
func failed(_ any, err error) error { return err }

// release gives a lock of any kind back, which is held.
func (s *site) release(held released) {
	s.Helper()
	s.check(held.Release(), "Release")
}

type released interface{ Release() error }

type confirmer interface {
	Confirm(ctx context.Context) (bool, error)
}

// confirm sees that a quorum of the nodes has the lock.
func (s *site) confirm(lock confirmer) {
	s.Helper()
	if held, err := lock.Confirm(s.Context()); !held || err != nil {
		s.Errorf("Confirm = %v, %v, want true", held, err)
	}
}

func (s *site) addrs() []string {
	addrs := make([]string, 0, five)
	for _, node := range s.kind.nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// kill ends the nodes. The test's end starts them again, empty.
func (s *site) kill(nodes ...int) {
	s.Helper()
	s.harm("kill", nodes, server.Node.Kill, server.Node.Start)
}

// pause freezes the nodes. The test's end lets them go on.
func (s *site) pause(nodes ...int) {
	s.Helper()
	s.harm("pause", nodes, server.Node.Pause, server.Node.Continue)
}

func (s *site) harm(what string, nodes []int, do, undo func(server.Node) error) {
	s.Helper()
	s.harmed = true
	for _, i := range nodes {
		if err := do(s.kind.nodes[i]); err != nil {
			s.Fatalf("%s node %d: %v", what, i+1, err)
		}
		s.Cleanup(func() {
			s.check(undo(s.kind.nodes[i]), "the end of a %s of node %d", what, i+1)
			for range 2 { // the first answer may come before the last command that lay in its buffers has run
				s.check(s.looks[i].Ping(context.Background()).Err(), "node %d after a %s", i+1, what)
			}
		})
	}
}

// holder returns what node i has at the site's key, or "".
func (s *site) holder(i int) string {
	s.Helper()
	value, err := s.looks[i].Get(context.Background(), s.key).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns the sentinel itself
		s.Fatalf("looking at node %d: %v", i+1, err)
	}
	return value
}

// waiting is an Acquire under way.
type waiting chan error

// waits acquires the site's key in the background, and releases it.
func (s *site) waits(locker *redlock.Locker) waiting {
	result := make(waiting, 1)
	go func() {
		lock, err := locker.Acquire(s.Context(), s.key)
		if err == nil {
			err = lock.Release()
		}
		result <- err
	}()
	return result
}

// listening waits until so many nodes have a listener for a key.
func (s *site) listening(key string, nodes int) {
	s.Helper()
	channel := "ql:free:" + key
	s.eventually("waiters listen", func() bool {
		count := 0
		for _, look := range s.looks {
			if look.PubSubNumSub(s.Context(), channel).Val()[channel] > 0 {
				count++
			}
		}
		return count >= nodes
	})
}

// eventuallyHolds waits until the site's key has the value at all of the nodes.
func (s *site) eventuallyHolds(value string, nodes ...int) {
	s.Helper()
	for _, i := range nodes {
		s.eventually("the key has the right value everywhere", func() bool { return s.holder(i) == value })
	}
}

// eventuallyFree waits until no key of the test is left on any node.
func (s *site) eventuallyFree() {
	s.Helper()
	for i := range five {
		s.eventually("nothing is left on the nodes", func() bool { return len(s.keys(i)) == 0 })
	}
}

// keys returns the keys of this test at node i.
func (s *site) keys(i int) []string {
	s.Helper()
	keys, err := s.looks[i].Keys(context.Background(), s.key+"*").Result()
	if err != nil {
		s.Fatalf("looking at node %d: %v", i+1, err)
	}
	return keys
}

// eventually waits until the condition holds, and ends the test if it does not.
func (s *site) eventually(what string, condition func() bool) {
	s.Helper()
	patient.Until(s.T, what, condition)
}

// mentions reports whether the error's text has all the words.
func mentions(err error, words ...string) bool {
	return err != nil && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(err.Error(), word) })
}
