package redlocktest

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// These are the library's own scripts. A Locker does not run all of them here: nodes that
// can delete by a command of their own do.

// run runs a script on keys, and returns its result.
func run(t *testing.T, node *Node, script *scripts.Script, keys int, args ...string) int64 {
	t.Helper()
	reply := ask(t, node, append([]string{"EVAL", script.Source, strconv.Itoa(keys)}, args...)...)
	if reply.Kind != driver.Integer {
		t.Fatalf("the script returned %s to %q, want an integer", show(reply), args)
	}
	return reply.Int
}

// has fails the test unless the node has the key for the token, for so long.
func has(t *testing.T, node *Node, key, token string, ttl time.Duration) {
	t.Helper()
	if got, _ := node.Get(key); got != token || node.TTL(key) != ttl {
		t.Errorf("%q has the key for %v, want %q for %v", got, node.TTL(key), token, ttl)
	}
}

func TestTheHoldScriptHoldsForItsOwnTokenOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		if got := run(t, node, scripts.Hold, 1, "key", "ours", "10000"); got != 2 {
			t.Errorf("where the key was missing it says %d, want 2", got)
		}
		has(t, node, "key", "ours", 10*time.Second)
		for _, other := range [][]string{{"key", "theirs", "20000"}, {"key", "theirs", "20000", "somebody's"}} {
			if got := run(t, node, scripts.Hold, 1, other...); got != 0 {
				t.Errorf("to %q it says %d where another has the key, want 0", other, got)
			}
			has(t, node, "key", "ours", 10*time.Second)
		}
	})
}

func TestTheHoldScriptProlongsAndNeverShortens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		run(t, node, scripts.Hold, 1, "key", "ours", "10000")
		for _, tt := range []struct{ ask, want time.Duration }{
			{20 * time.Second, 20 * time.Second},
			{5 * time.Second, 20 * time.Second},
		} {
			if got := run(t, node, scripts.Hold, 1, "key", "ours", strconv.FormatInt(tt.ask.Milliseconds(), 10)); got != 1 {
				t.Errorf("where the token has the key it says %d, want 1", got)
			}
			has(t, node, "key", "ours", tt.want)
		}
	})
}

func TestTheHoldScriptTakesOverFromTheTokenThatIsGivenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("key", "ours", time.Minute)
		if got := run(t, node, scripts.Hold, 1, "key", "the heir's", "10000", "ours"); got != 3 {
			t.Errorf("where the token that is given away has the key it says %d, want 3", got)
		}
		has(t, node, "key", "the heir's", 10*time.Second)
		if got := run(t, node, scripts.Hold, 1, "gone", "the heir's", "10000", "ours"); got != 2 {
			t.Errorf("where nobody has the key it says %d, want 2", got)
		}
		has(t, node, "gone", "the heir's", 10*time.Second)
	})
}

func TestTheExtendScriptProlongsWhatItsTokensHoldAndSetsWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("ours", "1", 10*time.Second)
		node.Set("theirs", "x", 10*time.Second)
		node.Set("longer", "4", time.Minute)
		got := run(t, node, scripts.Extend, 4, "ours", "theirs", "gone", "longer", "1", "2", "3", "4", "20000", "21000", "22000", "23000")
		if want := int64(1<<0 | 1<<2 | 1<<3); got != want {
			t.Errorf("the script says that the tokens hold %b, want %b", got, want)
		}
		has(t, node, "ours", "1", 20*time.Second)
		has(t, node, "theirs", "x", 10*time.Second)
		has(t, node, "gone", "3", 22*time.Second)
		has(t, node, "longer", "4", time.Minute)
	})
}

func TestTheExtendScriptWritesNothingWhereOneOfItsKeysIsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("ours", "1", 10*time.Second)
		ask(t, node, "ZADD", "no lock", "1", "member")
		reply := ask(t, node, "EVAL", scripts.Extend.Source, "3", "ours", "gone", "no lock", "1", "2", "3", "20000", "20000", "20000")
		if reply.Kind != driver.Failure {
			t.Errorf("where a key is no lock the script returns %s, want an error", show(reply))
		}
		has(t, node, "ours", "1", 10*time.Second)
		if got, want := fmt.Sprint(node.Keys()), "[no lock ours]"; got != want {
			t.Errorf("the script has set keys: there are %s, want %s", got, want)
		}
	})
}

func TestTheReleaseScriptDeletesNothingButWhatItsTokensHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("ours", "1", time.Minute)
		node.Set("theirs", "x", time.Minute)
		node.Set("ours too", "4", time.Minute)
		ask(t, node, "ZADD", "no lock", "1", "member")
		got := run(t, node, scripts.Release, 5, "ours", "theirs", "gone", "ours too", "no lock", "1", "2", "3", "4", "5")
		if want := int64(1<<0 | 1<<3); got != want {
			t.Errorf("the script says that it deleted %b, want %b", got, want)
		}
		if got, want := fmt.Sprint(node.Keys()), "[no lock theirs]"; got != want {
			t.Errorf("of five keys %s are left, want %s", got, want)
		}
	})
}

func TestTheReleaseScriptAnnouncesWhatItDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("unheard", "1", time.Minute)
		if got := run(t, node, scripts.Release, 1, "unheard", "1", "free:"); got != 1 {
			t.Errorf("where nobody listens the script says %d, want 1", got)
		}
		_, notices := listen(t, node, "free:", "free:ours", "free:theirs")
		node.Set("ours", "1", time.Minute)
		node.Set("theirs", "x", time.Minute)
		if got, want := run(t, node, scripts.Release, 2, "theirs", "ours", "2", "1", "free:"), int64(1<<32|1<<1); got != want {
			t.Errorf("where one listens the script says %b, want %b", got, want)
		}
		expect(t, notices, message("free:ours", ""))
		node.Set("ours", "1", time.Minute)
		if got := run(t, node, scripts.Release, 1, "ours", "1"); got != 1 {
			t.Errorf("without a channel the script says %d, want 1", got)
		}
		node.Set("theirs", "1", time.Minute)
		run(t, node, scripts.Release, 1, "theirs", "1", "free:")
		expect(t, notices, message("free:theirs", "")) // and nothing of the release without one
	})
}

func TestTheReleaseScriptAnnouncesInAClusterWhereverTheListenersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		_, notices := listen(t, node, "free:ours") // nobody at "free:"
		node.Set("ours", "1", time.Minute)
		run(t, node, scripts.Release, 1, "ours", "1", "free:", "1")
		expect(t, notices, message("free:ours", ""))
	})
}
