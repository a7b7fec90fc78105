package inspect

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

const held = "ql:0123456789abcdef0123456789abcdef:pod-7"

// plainNodes are nodes that have the token at the key "k" for so long, each; 0: without an expiry. They run no
// scripts, but have SET with IFEQ and DELIFEQ, as Valkey 9 has.
func plainNodes(left ...time.Duration) (all []*fakenode.Node, nodes []driver.Node) {
	for i, d := range left {
		n := fakenode.New("node " + strconv.Itoa(i+1))
		n.Scriptless, n.Kind = true, fakenode.Valkey9
		n.Plant("k", held, cmp.Or(d, time.Hour))
		n.Answer = func(args []any) *driver.Reply {
			if had, _ := n.Get("k"); d == 0 && args[0] == "PTTL" && had.Token == held {
				return &driver.Reply{Kind: driver.Integer, Int: -1}
			}
			return nil
		}
		all, nodes = append(all, n), append(nodes, driver.Node{Name: n.Name(), Driver: n})
	}
	return all, nodes
}

// slow has a node hold back what it says of a tombstone.
func slow(n *fakenode.Node) {
	buries := false
	n.Answer = func(args []any) *driver.Reply {
		buries = buries || args[0] == "SET" && strings.HasPrefix(args[2].(string), tombstone)
		return nil
	}
	n.Hold = func(string) <-chan struct{} {
		if !buries {
			return nil
		}
		buries = false
		answered := make(chan struct{})
		time.AfterFunc(300*time.Millisecond, func() { close(answered) })
		return answered
	}
}

// extend is what a node does for a holder: it prolongs the token, and sets it where nobody has the key.
func extend(n *fakenode.Node, ttl time.Duration) (ok bool) {
	n.Change(func(n *fakenode.Node) {
		had, there := n.Get("k")
		if ok = !there || had.Token == held; ok && time.Now().Add(ttl).After(had.Until) {
			n.Put("k", held, ttl)
		}
	})
	return ok
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
		all[2].Refused = driver.ErrNotSent
		done, err := revoke(t, nodes, RevokeOptions{})
		if err != nil || !done.Final || done.Took != 2 || done.Need != 2 {
			t.Fatalf("Revoke = %+v, %v, want it to be final with two tombstones of three", done, err)
		}
		if done.FreeAt == nil || time.Until(*done.FreeAt) < 10*time.Second-time.Millisecond {
			t.Errorf("it says that the key is free at %v, want when the lease is over", done.FreeAt)
		}
		time.Sleep(5 * time.Second)
		if extend(all[0], 10*time.Second) {
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
			if _, left := n.Token("k"); left < 10*time.Second-time.Millisecond || left > 11*time.Second {
				t.Errorf("node %d has the tombstone for %v, want 10s, for which a quorum had the key", i+1, left)
			}
		}
	})
}

// The first tombstone ends while another node is slow, and the holder renews in between.
func TestATombstoneThatWasNotThereAllTheTimeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := plainNodes(100*time.Millisecond, 10*time.Second, 10*time.Second)
		slow(all[1])
		all[2].Refused = driver.ErrNotSent
		var renewed sync.WaitGroup
		renewed.Go(func() {
			time.Sleep(200 * time.Millisecond)
			if !extend(all[0], 30*time.Second) || !extend(all[2], 30*time.Second) {
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
		if _, left := all[1].Token("k"); left < 29*time.Second {
			t.Errorf("behind it a node has the tombstone for %v, want as long as the renewed lease", left)
		}
	})
}

// A renewal that began before may count with what a tombstone that ended was counted for.
func TestARevocationIsNotFinalIfOneOfItsTombstonesEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, nodes := plainNodes(10*time.Second, 10*time.Second, 100*time.Millisecond)
		slow(all[0])
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
			n.Plant("k", "the next", 10*time.Second)
		}
		done, err := Revoke(t.Context(), nodes, seen, RevokeOptions{})
		if value, _ := all[0].Token("k"); !errors.Is(err, fault.ErrLost) || value != "the next" || done.Took != 0 {
			t.Errorf("Revoke of a holder that has gone = %+v, %v, and the next one's key is %q", done, err, value)
		}
		done, err = revoke(t, nodes, RevokeOptions{Now: true})
		if err != nil || done.Took != 3 || done.Overlap < 9.9 || done.Overlap > 10.1 {
			t.Errorf("Revoke now = %+v, %v, want three nodes free, and two holders for 10s at most", done, err)
		}
		for i, n := range all {
			if value, _ := n.Token("k"); value != "" || len(n.Published) != 1 {
				t.Errorf("node %d has %q, and has announced it %d times; want it free, and said so once", i+1, value, len(n.Published))
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
		if _, left := all[0].Token("k"); left < time.Minute || left > time.Minute+time.Second {
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
			n.Kind, n.Answer = fakenode.Redis7, func(args []any) *driver.Reply {
				if strings.HasPrefix(args[0].(string), "EVAL") {
					return &driver.Reply{Kind: driver.Failure, Str: "ERR unknown command"}
				}
				return nil
			}
		}
		if done, err := revoke(t, nodes, RevokeOptions{}); !errors.Is(err, fault.ErrNode) || !strings.Contains(err.Error(), "does not know EVAL, EVALSHA") || done.Took != 0 {
			t.Errorf("nodes that cannot compare and set: %+v, %v, want what to allow", done, err)
		}
		for _, n := range all {
			if value, _ := n.Token("k"); value != held {
				t.Errorf("what was refused has changed a key to %q", value)
			}
		}
	})
}
