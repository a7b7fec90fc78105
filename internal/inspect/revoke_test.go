package inspect

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A plainNode is a node with one key, "k", in virtual time. It runs no scripts, but has SET with
// IFEQ and DELIFEQ, as Valkey 9 has.
type plainNode struct {
	mu        sync.Mutex
	value     string // "": nobody has the key
	ends      time.Time
	endless   bool
	published int

	slow    time.Duration // for which it holds back what it says of the key
	cut     bool          // who looks from outside does not reach it
	without string        // a command that it does not have
}

func (n *plainNode) Do(ctx context.Context, cmds []driver.Command) (replies []driver.Reply, err error) {
	if n.cut {
		return nil, driver.ErrNotSent
	}
	slow := time.Duration(0)
	for _, cmd := range cmds {
		words := words(cmd)
		if words[0] == "SET" && strings.HasPrefix(words[2], "ql:revoked:") {
			slow = n.slow
		}
		replies = append(replies, n.answer(words))
	}
	select {
	case <-time.After(slow): // virtual
		return replies, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *plainNode) answer(words []string) driver.Reply {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expire()
	has := len(words) > 1 && words[1] == "k" && n.value != ""
	switch command := strings.Join(words, " "); {
	case words[0] == n.without:
	case words[0] == "GET" && has:
		return text(n.value)
	case words[0] == "GET":
		return driver.Reply{Kind: driver.Nil}
	case words[0] == "PTTL" && !has:
		return number(-2)
	case words[0] == "PTTL" && n.endless:
		return number(-1)
	case words[0] == "PTTL":
		return number(time.Until(n.ends).Milliseconds())
	case words[0] == "SET" && words[3] == "IFEQ" && (!has || n.value != words[4]):
		return driver.Reply{Kind: driver.Nil}
	case words[0] == "SET" && words[3] == "IFEQ":
		if n.value = words[2]; words[5] == "PX" {
			n.ends, n.endless = time.Now().Add(milliseconds(words[6])), false
		}
		return text("OK")
	case words[0] == "PEXPIRE" && strings.HasSuffix(command, " GT"):
		if ends := time.Now().Add(milliseconds(words[2])); has && !n.endless && ends.After(n.ends) {
			n.ends = ends
			return number(1)
		}
		return number(0)
	case words[0] == "DELIFEQ" && has && n.value == words[2]:
		n.value = ""
		return number(1)
	case words[0] == "DELIFEQ":
		return number(0)
	case words[0] == "PUBLISH":
		n.published++
		return number(0)
	}
	return driver.Reply{Kind: driver.Failure, Str: "ERR unknown command '" + words[0] + "'"}
}

func milliseconds(text string) time.Duration {
	ms, _ := strconv.Atoi(text)
	return time.Duration(ms) * time.Millisecond
}

func (n *plainNode) expire() {
	if n.value != "" && !n.endless && !time.Now().Before(n.ends) {
		n.value = ""
	}
}

// extend is what a node does for a holder: it prolongs the token, and sets it where nobody has the
// key.
func (n *plainNode) extend(token string, ttl time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expire()
	if n.value != "" && n.value != token {
		return false
	}
	if ends := time.Now().Add(ttl); n.value == "" || ends.After(n.ends) {
		n.value, n.ends = token, ends
	}
	return true
}

// left is for how long the node has the key.
func (n *plainNode) left() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expire()
	if n.value == "" {
		return 0
	}
	return time.Until(n.ends)
}

const held = "ql:0123456789abcdef0123456789abcdef:pod-7"

// plainNodes are nodes that have the token for so long, each; 0: without an expiry.
func plainNodes(left ...time.Duration) (all []*plainNode, nodes []driver.Node) {
	for i, d := range left {
		n := &plainNode{value: held, ends: time.Now().Add(d), endless: d == 0}
		all, nodes = append(all, n), append(nodes, driver.Node{Name: "node " + strconv.Itoa(i+1), Driver: n})
	}
	return all, nodes
}

// revoke takes the key from whom Look has seen.
func revoke(t *testing.T, nodes []driver.Node, o RevokeOptions) (Revocation, error) {
	t.Helper()
	seen, err := Look(t.Context(), nodes, "k", -1, o.Settings)
	if err != nil {
		t.Fatal(err)
	}
	return Revoke(t.Context(), nodes, seen, o)
}

// With the tombstone's own end alone, the holder gets the first node back when it expires there,
// and a quorum with the one that the revocation did not reach.
func TestATombstoneThatWouldEndBeforeTheLeaseIsMadeToLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := plainNodes(3*time.Second, 10*time.Second, 10*time.Second)
		all[2].cut = true
		done, err := revoke(t, nodes, RevokeOptions{})
		if err != nil || !done.Final || done.Took != 2 || done.Need != 2 {
			t.Fatalf("Revoke = %+v, %v, want it to be final with two tombstones of three", done, err)
		}
		if done.FreeAt == nil || time.Until(*done.FreeAt) < 10*time.Second-time.Millisecond {
			t.Errorf("it says that the key is free at %v, want when the lease is over", done.FreeAt)
		}
		time.Sleep(5 * time.Second)
		if all[0].extend(held, 10*time.Second) {
			t.Error("a renewal finds a node free again while the lease runs, and goes on with it")
		}
	})
}

func TestTombstonesLastNoLongerThanAQuorumHadTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := plainNodes(10*time.Second, 8*time.Second, time.Hour) // an extension reached one node alone
		if done, err := revoke(t, nodes, RevokeOptions{}); err != nil || !done.Final {
			t.Fatalf("Revoke = %+v, %v, want it to be final", done, err)
		}
		for i, n := range all[:2] {
			if left := n.left(); left < 10*time.Second-time.Millisecond || left > 11*time.Second {
				t.Errorf("node %d has the tombstone for %v, want 10s, for which a quorum had the key", i+1, left)
			}
		}
	})
}

// The first tombstone ends while another node is slow, and the holder renews in between.
func TestATombstoneThatWasNotThereAllTheTimeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := plainNodes(100*time.Millisecond, 10*time.Second, 10*time.Second)
		all[1].slow = 300 * time.Millisecond
		all[2].cut = true
		var renewed sync.WaitGroup
		renewed.Go(func() {
			time.Sleep(200 * time.Millisecond)
			if !all[0].extend(held, 30*time.Second) || !all[2].extend(held, 30*time.Second) {
				t.Error("the renewal failed: the test shows nothing")
			}
		})
		done, err := revoke(t, nodes, RevokeOptions{})
		renewed.Wait()
		if !errors.Is(err, fault.ErrNoQuorum) || done.Final {
			t.Errorf("Revoke = %+v, %v, want that the holder may go on: it was renewed for 30s in between", done, err)
		}
		if done, err = revoke(t, nodes, RevokeOptions{}); err != nil || !done.Final {
			t.Errorf("another Revoke = %+v, %v, want it to be final", done, err)
		}
		if left := all[1].left(); left < 29*time.Second {
			t.Errorf("behind it a node has the tombstone for %v, want as long as the renewed lease", left)
		}
	})
}

// A renewal that began before may count with what a tombstone that ended was counted for.
func TestARevocationIsNotFinalIfOneOfItsTombstonesEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := plainNodes(10*time.Second, 10*time.Second, 100*time.Millisecond)
		all[0].slow = 300 * time.Millisecond
		if done, err := revoke(t, nodes, RevokeOptions{}); err == nil || done.Final {
			t.Errorf("Revoke = %+v, %v, want that it is not final", done, err)
		}
	})
}

func TestNodesWithoutScriptsCompareByCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := plainNodes(10*time.Second, 10*time.Second, 10*time.Second)
		seen, err := Look(t.Context(), nodes, "k", -1, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			n.value = "the next"
		}
		if done, err := Revoke(t.Context(), nodes, seen, RevokeOptions{}); !errors.Is(err, fault.ErrLost) || all[0].value != "the next" || done.Took != 0 {
			t.Errorf("Revoke of a holder that has gone = %+v, %v, and the next one's key is %q", done, err, all[0].value)
		}
		done, err := revoke(t, nodes, RevokeOptions{Now: true})
		if err != nil || done.Took != 3 || done.Overlap < 9.9 || done.Overlap > 10.1 {
			t.Errorf("Revoke now = %+v, %v, want three nodes free, and two holders for 10s at most", done, err)
		}
		for i, n := range all {
			if n.value != "" || n.published != 1 {
				t.Errorf("node %d has %q, and has announced it %d times; want it free, and said so once", i+1, n.value, n.published)
			}
		}
	})
}

func TestAKeyWithoutAnExpiryGetsTheLongestOneByCommandAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := plainNodes(0, 0, 0)
		if done, err := revoke(t, nodes, RevokeOptions{Settings: Settings{LongestTTL: time.Minute}}); err != nil || !done.Final {
			t.Fatalf("Revoke = %+v, %v, want it to be final", done, err)
		}
		if left := all[0].left(); left < time.Minute || left > time.Minute+time.Second {
			t.Errorf("the tombstone is there for %v, want a minute", left)
		}
	})
}

func TestWhatCannotBeRevokedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := plainNodes(10*time.Second, 10*time.Second, 10*time.Second)
		if _, err := revoke(t, nodes, RevokeOptions{Reason: "two\nlines"}); !errors.Is(err, fault.ErrOption) {
			t.Errorf("a reason that no terminal can show: %v, want ErrOption", err)
		}
		if _, err := Revoke(t.Context(), nodes, Holding{Key: "k"}, RevokeOptions{}); !errors.Is(err, fault.ErrOption) {
			t.Errorf("a key that nobody was seen to hold: %v, want ErrOption", err)
		}
		for _, n := range all {
			n.without = "SET"
		}
		if done, err := revoke(t, nodes, RevokeOptions{}); !errors.Is(err, fault.ErrNode) || !strings.Contains(err.Error(), "does not know EVAL, EVALSHA") || done.Took != 0 {
			t.Errorf("nodes that cannot compare and set: %+v, %v, want what to allow", done, err)
		}
		for _, n := range all {
			if n.value != held {
				t.Errorf("what was refused has changed a key to %q", n.value)
			}
		}
	})
}
