package redlocktest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/scripts"
)

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
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
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
