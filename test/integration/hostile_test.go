package integration

import (
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// A hostile node shakes hands as a node does, and answers what a lock sends by bytes
// that keep to no protocol.
type hostile struct {
	listener net.Listener
	node     *redlocktest.Node // shakes hands
	raw      string
	stays    bool // and is silent, and else hangs up
	serving  sync.WaitGroup

	mu    sync.Mutex
	said  int
	conns map[net.Conn]struct{}
}

// garbage is what hostile nodes say. None of it is a vote by chance.
var garbage = []string{
	"$-5\r\n", "*-7\r\n", "%-1\r\n", "$99999999999\r\n", "$536870912\r\n", "*2147483647\r\n", "%4611686018427387904\r\n", "$9223372036854775807\r\n",
	"\x00\x00\x00", "HTTP/1.1 400 Bad Request\r\n\r\n", "+OK", "$5\r\nab", "*2\r\n:1\r\n", ":\r\n", ":99999999999999999999\r\n",
	"*1\r\n*1\r\n*1\r\n:1\r\n", "%1\r\n+k\r\n:1\r\n", "~1\r\n_\r\n", ",nan\r\n", "(12345678901234567890\r\n", "=7\r\ntxt:abc\r\n", "+\xff\xfe\r\n",
	"-\r\n", "-MOVED\r\n", "-ASK\r\n", "-BUSY\r\n", "-LOADING\r\n", "-NOSCRIPT\r\n", "-WRONGTYPE\r\n", "!3\r\nERR\r\n", "|1\r\n+k\r\n+v\r\n+x\r\n",
	">3\r\n+subscribe\r\n+x\r\n:1\r\n", ">3\r\n+message\r\n+x\r\n+y\r\n", ">2\r\n+invalidate\r\n:1\r\n", "*3\r\n+subscribe\r\n+x\r\n:1\r\n", "$?\r\n;1\r\nx\r\n;0\r\n",
	strings.Repeat("*1\r\n", 100_000), strings.Repeat("-ERR x\r\n", 1000), "+" + strings.Repeat("x", 1<<20), "",
}

// ofLocks are the commands by which it knows a lock's batch.
var ofLocks = regexp.MustCompile(`(?i)\r\n(SET|GET|DEL|EVAL|EVALSHA|PEXPIRE|PTTL|ZADD|ZSCORE|INFO|TIME|PUBLISH|SUBSCRIBE|PUBSUB)\r\n`)

func startHostile(t *testing.T, i int) *hostile {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on the loopback does not wait
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{
		listener: listener,
		node:     redlocktest.Start(t, 1)[0],
		raw:      garbage[i%len(garbage)],
		stays:    i%8 == 0,
		conns:    map[net.Conn]struct{}{},
	}
	h.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.conns[conn] = struct{}{}
			h.mu.Unlock()
			h.serving.Go(func() { h.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		h.mu.Lock()
		for conn := range h.conns {
			_ = conn.Close()
		}
		h.mu.Unlock()
		h.serving.Wait()
	})
	return h
}

func (h *hostile) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.conns, conn)
	}()
	node, err := net.Dial("tcp", h.node.Addr()) //nolint:noctx // the loopback does not wait
	if err != nil {
		return
	}
	defer func() { _ = node.Close() }()
	h.serving.Go(func() { _, _ = io.Copy(conn, node) }) // ends with either
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if !ofLocks.Match(buf[:n]) {
			if _, err := node.Write(buf[:n]); err != nil {
				return
			}
			continue
		}
		h.mu.Lock()
		h.said++
		h.mu.Unlock()
		if _, err := io.WriteString(conn, h.raw); err != nil || !h.stays {
			return
		}
	}
}

func (h *hostile) counts() (open, said int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns), h.said
}

// lockerAmong makes a Locker of honest nodes and so many hostile ones, which are the first.
// What they say begins with the garbage at i.
func lockerAmong(t *testing.T, c client, honest redlocktest.Nodes, bad, i int) (*redlock.Locker, []*hostile) {
	t.Helper()
	var urls []string
	var worst []*hostile
	for more := range bad {
		h := startHostile(t, i+more)
		worst = append(worst, h)
		urls = append(urls, "redis://"+h.listener.Addr().String())
	}
	for _, node := range honest {
		urls = append(urls, "redis://"+node.Addr())
	}
	nodes, err := c.open(urls...)
	if err != nil {
		t.Fatal(err)
	}
	locker, err := redlock.New(nodes, redlock.WithFences(), redlock.WithNodeTimeout(brief), redlock.WithCloseTimeout(0))
	if err != nil {
		t.Fatal(err)
	}
	return locker, worst
}

// TestHostileMinority shows that two nodes that talk nonsense take nothing away.
func TestHostileMinority(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			honest := redlocktest.Start(t, 3)
			for i, raw := range garbage {
				before := runtime.NumGoroutine()
				locker, worst := lockerAmong(t, c, honest, 2, i)
				last := int64(0)
				for range 2 {
					lock, err := locker.Acquire(t.Context(), "orders:42", redlock.WithMaxWait(patience))
					if err != nil {
						t.Fatalf("two of five nodes say %.40q: Acquire = %v", raw, err)
					}
					if lock.Fence() <= last {
						t.Errorf("two of five nodes say %.40q: the fence is %d after %d, want a greater one", raw, lock.Fence(), last)
					}
					last = lock.Fence()
					if err := lock.Extend(t.Context(), 10*time.Second); err != nil {
						t.Errorf("two of five nodes say %.40q: Extend = %v", raw, err)
					}
					for _, vote := range lock.Votes()[:2] {
						if vote.Answer == redlock.Granted {
							t.Errorf("two of five nodes say %.40q, and one has voted: %v", raw, vote)
						}
					}
					if err := lock.Release(t.Context()); err != nil {
						t.Errorf("two of five nodes say %.40q: Release = %v", raw, err)
					}
				}
				leavesNothing(t, locker, honest, worst, before)
			}
		})
	}
}

// TestHostileMajority shows that three such nodes keep everybody out, and are named.
func TestHostileMajority(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			honest := redlocktest.Start(t, 2)
			for i, raw := range garbage {
				before := runtime.NumGoroutine()
				locker, worst := lockerAmong(t, c, honest, 3, i)
				began := time.Now()
				lock, err := locker.TryAcquire(t.Context(), "orders:42")
				if took := time.Since(began); took > patience/4 {
					t.Errorf("three of five nodes say %.40q: TryAcquire took %v", raw, took)
				}
				var quorum *redlock.QuorumError
				if lock != nil || !errors.Is(err, redlock.ErrNoQuorum) || !errors.As(err, &quorum) {
					t.Fatalf("three of five nodes say %.40q: TryAcquire = %v, want ErrNoQuorum", raw, err)
				}
				failed := 0
				for _, vote := range quorum.Votes[:3] {
					if vote.Answer == redlock.Failed && vote.Err != nil {
						failed++
					}
					if vote.Answer == redlock.Granted || !mentions(err, vote.Node) {
						t.Errorf("three of five nodes say %.40q: the vote of one is %v in %q, want none, and its name", raw, vote, err)
					}
				}
				if failed == 0 {
					t.Errorf("three of five nodes say %.40q, and the error does not tell: %v", raw, err)
				}
				leavesNothing(t, locker, honest, worst, before)
			}
		})
	}
}

// leavesNothing closes the Locker, and waits until its keys, connections and goroutines
// are gone.
func leavesNothing(t *testing.T, locker *redlock.Locker, honest redlocktest.Nodes, worst []*hostile, before int) {
	t.Helper()
	ownOfNodes := 8 * len(worst) // the test's own servers, which are still there
	var left string
	gone := func(look func() bool) bool {
		for deadline := time.Now().Add(patience); !look(); time.Sleep(time.Millisecond) { // between two looks
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
			if _, said := h.counts(); said == 0 {
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
			conns, _ := h.counts()
			open += conns
		}
		n := runtime.NumGoroutine() - before
		left = fmt.Sprintf("%d connections and %d goroutines", open, n)
		return open == 0 && n <= ownOfNodes
	}) {
		t.Fatalf("%s are left", left)
	}
}
