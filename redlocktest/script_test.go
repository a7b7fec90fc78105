package redlocktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// These are the library's own scripts. A Locker does not run all of them here: nodes that
// can delete by a command of their own do.

// run runs a script on a key, and returns its result.
func run(t *testing.T, node *Node, script *scripts.Script, args ...string) int64 {
	t.Helper()
	reply := ask(t, node, append([]string{"EVAL", script.Source, "1"}, args...)...)
	if reply.Kind != driver.Integer {
		t.Fatalf("the script returned %s to %q, want an integer", show(reply), args)
	}
	return reply.Int
}

// has fails the test unless the node has the key "k" for the token, for so long.
func has(t *testing.T, node *Node, token string, ttl time.Duration) {
	t.Helper()
	if got, _ := node.Get("k"); got != token || node.TTL("k") != ttl {
		t.Errorf("%q has the key for %v, want %q for %v", got, node.TTL("k"), token, ttl)
	}
}

// waits runs the script beside the key "k", and returns the nonces and the fields that it says.
func waits(t *testing.T, node *Node, args ...string) (found []string) {
	t.Helper()
	reply := ask(t, node, append([]string{"EVAL", scripts.Waits.Source, "1", "ql:waits:{k}"}, args...)...)
	if len(reply.Elems)%2 != 0 || len(reply.Elems) < 2 {
		t.Fatalf("the script returned %s, want the time, nonces, and fields with what they say", show(reply))
	}
	if late := time.Since(time.UnixMicro(reply.Elems[0].Int)); late < 0 || late > time.Second {
		t.Errorf("the script says that it is %v ago", late)
	}
	if nonces := reply.Elems[1].Str; nonces != "" {
		found = append(found, nonces)
	}
	for pair := range slices.Chunk(reply.Elems[2:], 2) {
		found = append(found, pair[0].Str+"="+pair[1].Str)
	}
	slices.Sort(found)
	return found
}

func TestTheWaitsScriptKeepsEachFieldForItsTime(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		want := func(got []string, want ...string) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("the script returned %q, want %q", got, want)
			}
		}
		left := func() time.Duration {
			return time.Duration(ask(t, node, "PTTL", "ql:waits:{k}").Int) * time.Millisecond
		}
		fields := func(want int64) {
			t.Helper()
			if n := ask(t, node, "HLEN", "ql:waits:{k}").Int; n != want {
				t.Errorf("there are %d fields, want %d", n, want)
			}
		}
		want(waits(t, node))
		want(waits(t, node, "wait:1", "says\none", "3000"))
		want(waits(t, node, "nonce:2", "two", "1000"), "two")
		want(waits(t, node, "nonce:3", "three", "2000"), "two three")
		want(waits(t, node), "two three", "wait:1=says\none")
		if got := left(); got <= 2*time.Second {
			t.Errorf("a nonce that lives for 2s lets the others live for %v, want their 3s", got)
		}
		want(waits(t, node, "wait:1", "says 1", "3000"), "two three")
		time.Sleep(1500 * time.Millisecond)
		want(waits(t, node), "three", "wait:1=says 1")
		want(waits(t, node, "nonce:3", "3", "9000"), "3") // one for each who asks
		want(waits(t, node, "nonce:3", "", "0"))
		fields(1)
		want(waits(t, node, "wait:3", "x", "9000"))
		time.Sleep(1500 * time.Millisecond)
		want(waits(t, node, "wait:3", "x", "9000"))
		fields(2) // to put looks at no other
		want(waits(t, node), "wait:3=x")
		fields(1)
		want(waits(t, node, "wait:3", "", "0"))
		if n := ask(t, node, "EXISTS", "ql:waits:{k}").Int; n != 0 {
			t.Error("behind the last field something is left")
		}
		ask(t, node, "HSET", "ql:waits:{k}", "wait:4", "9999999999999999 far ahead", "wait:5", "nothing", "nonces", "nothing either")
		want(waits(t, node))
	})
}

// What shares the key "k".
var sides = []string{"2", "k", "ql:readers:{k}"}

// byReaders runs a script on the key and its readers, and shows the reply.
func byReaders(t *testing.T, node *Node, script *scripts.Script, args ...string) string {
	t.Helper()
	return show(ask(t, node, slices.Concat([]string{"EVAL", script.Source}, sides, args)...))
}

const tombstone = "ql:revoked:0123456789abcdef0123456789abcdef:it hangs"

// revoke runs the script on the key "k", and shows its reply.
func revoke(t *testing.T, node *Node, value, least string) string {
	t.Helper()
	return show(ask(t, node, "EVAL", scripts.Revoke.Source, "1", "k", value, tombstone, "60000", least))
}

// revokeReaders does it with the readers of whom one has to be there.
func revokeReaders(t *testing.T, node *Node, readers ...string) string {
	t.Helper()
	return byReaders(t, node, scripts.Revoke, append([]string{"ql:shared", tombstone, "60000", "0"}, readers...)...)
}

func TestTheRevokeScriptLeavesATombstoneForAsLongAsTheKeyWouldBeThere(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Set("k", "theirs", 10*time.Second)
		says(t, "the token that was seen", revoke(t, node, "theirs", "0"), "[1 10000]")
		has(t, node, tombstone, 10*time.Second)
		time.Sleep(4 * time.Second)
		says(t, "a renewal", run(t, node, scripts.Hold, "k", "theirs", "10000"), 0)
		says(t, "renewals of several keys", run(t, node, scripts.Extend, "k", "theirs", "10000"), 0)
		says(t, "the holder's release", run(t, node, scripts.Release, "k", "theirs"), 0)
		says(t, "another revocation", revoke(t, node, "theirs", "0"), "[1 6000]")
		has(t, node, tombstone, 6*time.Second)
		says(t, "one that wants it to stay", revoke(t, node, "theirs", "9000"), "[1 9000]")
		has(t, node, tombstone, 9*time.Second)
		says(t, "one that wants it for less", revoke(t, node, "theirs", "1000"), "[1 9000]")
		has(t, node, tombstone, 9*time.Second)
	})
}

func TestTheRevokeScriptHitsNobodyButWhomWasSeen(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		says(t, "a key that is free", revoke(t, node, "theirs", "5000"), "[0 -2]")
		says(t, "the keys that are left", fmt.Sprint(node.Keys()), "[]")
		node.Set("k", "the next", 10*time.Second)
		says(t, "the next holder", revoke(t, node, "theirs", "20000"), "[0 10000]")
		has(t, node, "the next", 10*time.Second)
		ask(t, node, "DEL", "k")
		ask(t, node, "ZADD", "k", "1", "member")
		reply := ask(t, node, "EVAL", scripts.Revoke.Source, "1", "k", "theirs", tombstone, "60000", "0")
		if reply.Kind != driver.Failure {
			t.Errorf("where the key is no lock the script returns %s, want an error", show(reply))
		}
	})
}

func TestTheRevokeScriptGivesAKeyWithoutAnExpiryTheLongestOne(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		ask(t, node, "SET", "k", "1")
		says(t, "a lock without an expiry", revoke(t, node, "1", "0"), "[1 60000]")
		has(t, node, tombstone, time.Minute)
	})
}

func TestTheRevokeScriptTakesAKeyFromAllItsReaders(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		byReaders(t, node, scripts.Share, "20000", "stay", "0", "a")
		byReaders(t, node, scripts.Share, "10000", "stay", "0", "b")
		says(t, "readers who are not there", revokeReaders(t, node, "x", "y"), "[0 20000]")
		has(t, node, "ql:shared", 20*time.Second)
		time.Sleep(15 * time.Second)
		says(t, "a reader whose lease is over", revokeReaders(t, node, "b"), "[0 5000]")
		says(t, "one of the readers", revokeReaders(t, node, "b", "a"), "[1 5000]")
		has(t, node, tombstone, 5*time.Second)
		renewal := ask(t, node, slices.Concat([]string{"EVAL", scripts.Share.Source}, sides, []string{"20000", "stay", "0", "a"})...)
		says(t, "a reader's renewal", show(renewal.Elems[0])+" "+renewal.Elems[2].Str, "0 "+tombstone)
		says(t, "a reader's upgrade", byReaders(t, node, scripts.Raise, "a", "w", "20000"), fmt.Sprintf("[0 %q 5000]", tombstone))
		says(t, "a reader's release", byReaders(t, node, scripts.Unshare, "1", "a"), "0")
		has(t, node, tombstone, 5*time.Second)
		time.Sleep(5*time.Second + time.Millisecond)
		byReaders(t, node, scripts.Share, "10000", "stay", "0", "c")
		if members := ask(t, node, "ZRANGE", sides[2], "0", "-1"); len(members.Elems) != 1 {
			t.Errorf("behind the tombstone there are %s, want c alone", show(members))
		}
	})
}
