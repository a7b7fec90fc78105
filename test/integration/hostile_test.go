package integration

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/scripted"
)

// garbage is what hostile nodes say. None of it is a vote by chance.
var garbage = []string{
	"$-5\r\n", "*-7\r\n", "%-1\r\n", "$99999999999\r\n", "$536870912\r\n", "*2147483647\r\n", "%4611686018427387904\r\n", "$9223372036854775807\r\n",
	"\x00\x00\x00", "HTTP/1.1 400 Bad Request\r\n\r\n", "+OK", "$5\r\nab", "*2\r\n:1\r\n", ":\r\n", ":99999999999999999999\r\n",
	"*1\r\n*1\r\n*1\r\n:1\r\n", "%1\r\n+k\r\n:1\r\n", "~1\r\n_\r\n", ",nan\r\n", "(12345678901234567890\r\n", "=7\r\ntxt:abc\r\n", "+\xff\xfe\r\n",
	"-\r\n", "-MOVED\r\n", "-ASK\r\n", "-BUSY\r\n", "-LOADING\r\n", "-NOSCRIPT\r\n", "-WRONGTYPE\r\n", "!3\r\nERR\r\n", "|1\r\n+k\r\n+v\r\n+x\r\n",
	">3\r\n+subscribe\r\n+x\r\n:1\r\n", ">3\r\n+message\r\n+x\r\n+y\r\n", ">2\r\n+invalidate\r\n:1\r\n", "*3\r\n+subscribe\r\n+x\r\n:1\r\n", "$?\r\n;1\r\nx\r\n;0\r\n",
	strings.Repeat("*1\r\n", 100_000), strings.Repeat("-ERR x\r\n", 1000), "+" + strings.Repeat("x", 1<<20), "",
}

// ofLocks are the commands of locks, which a hostile node answers by bytes that keep to no protocol.
// It shakes hands as a node does.
var ofLocks = []string{"SET", "GET", "DEL", "EVAL", "EVALSHA", "PEXPIRE", "PTTL", "ZADD", "ZSCORE", "INFO", "TIME", "PUBLISH", "SUBSCRIBE", "PUBSUB"}

// startHostile starts a node that says the garbage at i. Some go on behind it, and else they hang up.
func startHostile(t *testing.T, i int) *scripted.Server {
	t.Helper()
	s := scripted.Start(t)
	h := scripted.Hostility{Raw: garbage[i%len(garbage)], Ending: scripted.HangsUp}
	if i%8 == 0 {
		h.Ending = scripted.GoesOn
	}
	for _, name := range ofLocks {
		_ = s.Hostile(name, h) // for good
	}
	return s
}

// said is how often a hostile node was asked.
func said(s *scripted.Server) (n int) {
	for _, name := range ofLocks {
		n += s.Count(name)
	}
	return n
}

// lockerAmong makes a Locker of honest nodes and so many hostile ones, which are the first.
// What they say begins with the garbage at i.
func lockerAmong(t *testing.T, c client, honest redlocktest.Nodes, bad, i int) (*redlock.Locker, []*scripted.Server) {
	t.Helper()
	var urls []string
	var worst []*scripted.Server
	for more := range bad {
		h := startHostile(t, i+more)
		worst = append(worst, h)
		urls = append(urls, "redis://"+h.Addr())
	}
	for _, node := range honest {
		urls = append(urls, "redis://"+node.Addr())
	}
	nodes := c.reach(t, urls...)
	locker, err := redlock.New(nodes, redlock.WithFences(), redlock.WithNodeTimeout(brief), redlock.WithCloseTimeout(0))
	must(t, err)
	return locker, worst
}

// among runs the test with each client, over honest nodes and hostile ones, which come first, for
// each thing that these may say first.
func among(t *testing.T, good, bad int, test func(t *testing.T, locker *redlock.Locker, where string)) {
	t.Helper()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			honest := redlocktest.Start(t, good)
			for i, raw := range garbage {
				before := runtime.NumGoroutine()
				locker, worst := lockerAmong(t, c, honest, bad, i)
				test(t, locker, fmt.Sprintf("%d of five nodes say %.40q", bad, raw))
				leavesNothing(t, locker, honest, worst, before)
			}
		})
	}
}

// TestHostileMinority shows that two nodes that talk nonsense take nothing away.
func TestHostileMinority(t *testing.T) {
	among(t, 3, 2, func(t *testing.T, locker *redlock.Locker, where string) {
		last := int64(0)
		for range 2 {
			lock, err := locker.Acquire(t.Context(), "orders:42", redlock.WithMaxWait(patience), redlock.WithTTL(time.Hour))
			if err != nil {
				t.Fatalf("%s: Acquire = %v", where, err)
			}
			if lock.Fence() <= last {
				t.Errorf("%s: the fence is %d after %d, want a greater one", where, lock.Fence(), last)
			}
			last = lock.Fence()
			patient.Until(t, where+": the lock is extended", func() bool { return lock.Extend(t.Context(), time.Hour) == nil })
			for _, vote := range lock.Votes()[:2] {
				if vote.Answer == "granted" {
					t.Errorf("%s, and one has voted: %v", where, vote)
				}
			}
			if err := lock.Release(); err != nil && !errors.Is(err, redlock.ErrNoQuorum) { // an honest node may be late
				t.Errorf("%s: Release = %v", where, err)
			}
		}
	})
}

// TestHostileMajority shows that three such nodes keep everybody out, and are named.
func TestHostileMajority(t *testing.T) {
	among(t, 2, 3, func(t *testing.T, locker *redlock.Locker, where string) {
		watch := patient.Start()
		lock, err := locker.TryAcquire(t.Context(), "orders:42")
		if took := watch.Took(); took > 10*brief {
			t.Errorf("%s: TryAcquire took %v", where, took)
		}
		var quorum *redlock.QuorumError
		if lock != nil || !errors.Is(err, redlock.ErrNoQuorum) || !errors.As(err, &quorum) {
			t.Fatalf("%s: TryAcquire = %v, want ErrNoQuorum", where, err)
		}
		failed := 0
		for _, vote := range quorum.Votes[:3] {
			if vote.Answer == "failed" && vote.Err != nil {
				failed++
			}
			if vote.Answer == "granted" || !mentions(err, vote.Node) {
				t.Errorf("%s: the vote of one is %v in %q, want none, and its name", where, vote, err)
			}
		}
		if failed == 0 {
			t.Errorf("%s, and the error does not tell: %v", where, err)
		}
	})
}

// leavesNothing closes the Locker, and waits until its keys, connections and goroutines
// are gone.
func leavesNothing(t *testing.T, locker *redlock.Locker, honest redlocktest.Nodes, worst []*scripted.Server, before int) {
	t.Helper()
	ownOfNodes := 8 * len(worst) // the test's own servers, which are still there
	var left string
	gone := func(look func() bool) bool {
		for deadline := time.Now().Add(patience); !look(); time.Sleep(time.Millisecond) { //nolint:forbidigo // between two looks
			if time.Now().After(deadline) {
				return false
			}
		}
		return true
	}
	if !gone(func() bool {
		left = ""
		for i, node := range honest {
			if value, held := node.Get("orders:42"); held {
				left += fmt.Sprintf("honest node %d still holds %q; ", i+1, value)
			}
		}
		for i, h := range worst {
			if said(h) == 0 {
				left += fmt.Sprintf("hostile node %d was not asked; ", i+1)
			}
		}
		return left == ""
	}) {
		t.Fatal(left)
	}
	_ = locker.Close() // may say what it still owes to the hostile ones
	if !gone(func() bool {
		open := 0
		for _, h := range worst {
			open += h.Conns()
		}
		n := runtime.NumGoroutine() - before
		left = fmt.Sprintf("%d connections and %d goroutines", open, n)
		return open == 0 && n <= ownOfNodes
	}) {
		t.Fatalf("%s are left", left)
	}
}
