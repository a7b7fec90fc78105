package redlocktest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

const tombstone = "ql:revoked:0123456789abcdef0123456789abcdef:it hangs"

// revoke runs the script on the key "k", and shows its reply.
func revoke(t *testing.T, node *Node, value, least string) string {
	t.Helper()
	return listed(ask(t, node, "EVAL", scripts.Revoke.Source, "1", "k", value, tombstone, "60000", least))
}

// revokeReaders does it with the readers of whom one has to be there.
func revokeReaders(t *testing.T, node *Node, readers ...string) string {
	t.Helper()
	return listed(ask(t, node, append([]string{"EVAL", scripts.Revoke.Source, "2", "k", "ql:readers:{k}", "ql:shared", tombstone, "60000", "0"}, readers...)...))
}

func TestTheRevokeScriptLeavesATombstoneForAsLongAsTheKeyWouldBeThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("k", "theirs", 10*time.Second)
		says(t, "the token that was seen", revoke(t, node, "theirs", "0"), "[1 10000]")
		has(t, node, "k", tombstone, 10*time.Second)
		time.Sleep(4 * time.Second)
		says(t, "a renewal", run(t, node, scripts.Hold, 1, "k", "theirs", "10000"), 0)
		says(t, "renewals of several keys", run(t, node, scripts.Extend, 1, "k", "theirs", "10000"), 0)
		says(t, "the holder's release", run(t, node, scripts.Release, 1, "k", "theirs"), 0)
		says(t, "another revocation", revoke(t, node, "theirs", "0"), "[1 6000]")
		has(t, node, "k", tombstone, 6*time.Second)
		says(t, "one that wants it to stay", revoke(t, node, "theirs", "9000"), "[1 9000]")
		has(t, node, "k", tombstone, 9*time.Second)
		says(t, "one that wants it for less", revoke(t, node, "theirs", "1000"), "[1 9000]")
		has(t, node, "k", tombstone, 9*time.Second)
	})
}

func TestTheRevokeScriptHitsNobodyButWhomWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		says(t, "a key that is free", revoke(t, node, "theirs", "5000"), "[0 -2]")
		if keys := node.Keys(); len(keys) != 0 {
			t.Errorf("where nobody had the key there is %v", keys)
		}
		node.Set("k", "the next", 10*time.Second)
		says(t, "the next holder", revoke(t, node, "theirs", "20000"), "[0 10000]")
		has(t, node, "k", "the next", 10*time.Second)
		ask(t, node, "DEL", "k")
		ask(t, node, "ZADD", "k", "1", "member")
		reply := ask(t, node, "EVAL", scripts.Revoke.Source, "1", "k", "theirs", tombstone, "60000", "0")
		if reply.Kind != driver.Failure {
			t.Errorf("where the key is no lock the script returns %s, want an error", show(reply))
		}
	})
}

func TestTheRevokeScriptGivesAKeyWithoutAnExpiryTheLongestOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		ask(t, node, "SET", "k", "1")
		says(t, "a lock without an expiry", revoke(t, node, "1", "0"), "[1 60000]")
		has(t, node, "k", tombstone, time.Minute)
	})
}

func TestTheRevokeScriptTakesAKeyFromAllItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		share(t, node, "20000", "join", "a")
		share(t, node, "10000", "join", "b")
		says(t, "readers who are not there", revokeReaders(t, node, "x", "y"), "[0 20000]")
		has(t, node, "k", "ql:shared", 20*time.Second)
		time.Sleep(15 * time.Second)
		says(t, "a reader whose lease is over", revokeReaders(t, node, "b"), "[0 5000]")
		says(t, "one of the readers", revokeReaders(t, node, "b", "a"), "[1 5000]")
		has(t, node, "k", tombstone, 5*time.Second)
		for _, mode := range []string{"join", "stay"} {
			says(t, "a reader's renewal", share(t, node, "20000", mode, "a"), fmt.Sprintf("[0 - %s 5000]", tombstone))
		}
		says(t, "a reader's upgrade", raise(t, node, "a", "w", "20000"), fmt.Sprintf("[0 %s 5000]", tombstone))
		says(t, "a reader's release", unshare(t, node, "1", "a"), 0)
		has(t, node, "k", tombstone, 5*time.Second)
		time.Sleep(5*time.Second + time.Millisecond)
		says(t, "the first one behind it", share(t, node, "10000", "join", "c"), "[1 - - 0]")
		if members := ask(t, node, "ZRANGE", "ql:readers:{k}", "0", "-1"); len(members.Elems) != 1 {
			t.Errorf("behind the tombstone there are %s, want c alone", listed(members))
		}
	})
}
