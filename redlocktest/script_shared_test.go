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

// What shares a key, "k", beside it.
var sides = []string{"k", "ql:readers:{k}", "ql:writer:{k}"}

// share runs the script that shares the key, and shows its reply.
func share(t *testing.T, node *Node, args ...string) string {
	t.Helper()
	return listed(ask(t, node, append(append([]string{"EVAL", scripts.Share.Source, "3"}, sides...), args...)...))
}

// listed shows a list: nil as "-".
func listed(reply driver.Reply) string {
	if reply.Kind != driver.Array {
		return show(reply)
	}
	var elems []string
	for _, e := range reply.Elems {
		switch e.Kind {
		case driver.Nil:
			elems = append(elems, "-")
		case driver.Integer:
			elems = append(elems, strconv.FormatInt(e.Int, 10))
		default:
			elems = append(elems, e.Str)
		}
	}
	return fmt.Sprint(elems)
}

func unshare(t *testing.T, node *Node, args ...string) int64 {
	t.Helper()
	return run(t, node, scripts.Unshare, 2, append([]string{"k", "ql:readers:{k}"}, args...)...)
}

func raise(t *testing.T, node *Node, args ...string) string {
	t.Helper()
	return listed(ask(t, node, append([]string{"EVAL", scripts.Raise.Source, "2", "k", "ql:readers:{k}"}, args...)...))
}

func says[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: the script says %v, want %v", what, got, want)
	}
}

func TestTheShareScriptLetsTokensShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		says(t, "two where the key is free", share(t, node, "10000", "join", "a", "b"), "[3 - - 0]")
		has(t, node, "k", "ql:shared", 10*time.Second)
		says(t, "a shorter lease", share(t, node, "5000", "stay", "a"), "[1 - - 0]")
		has(t, node, "k", "ql:shared", 10*time.Second)
		says(t, "a longer one", share(t, node, "20000", "join", "c"), "[1 - - 0]")
		has(t, node, "k", "ql:shared", 20*time.Second)
		if got := node.TTL("ql:readers:{k}"); got != 20*time.Second {
			t.Errorf("the readers are kept for %v, want as long as the key", got)
		}
		says(t, "the longest goes", unshare(t, node, "1", "c"), 1)
		has(t, node, "k", "ql:shared", 10*time.Second)
		says(t, "the others, and one who is not there", unshare(t, node, "3", "a", "x", "b"), 0b101)
		if keys := node.Keys(); len(keys) != 0 {
			t.Errorf("behind the last reader %v are left", keys)
		}
	})
}

func TestTheShareScriptRefusesWhatOthersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		for _, holder := range []string{"theirs", ""} {
			node.Set("k", holder, 10*time.Second)
			for _, how := range [][]string{{"join", "a"}, {"stay", "a"}, {"turn", "a", "mine"}, {"back", "a", "mine"}} {
				says(t, how[0], share(t, node, append([]string{"5000"}, how...)...), "[0 - "+holder+" 10000]")
			}
			says(t, "a reader who is not there", unshare(t, node, "1", "a"), 0)
			says(t, "an upgrade", raise(t, node, "a", "b", "1000"), "[0 "+holder+" 10000]")
			has(t, node, "k", holder, 10*time.Second)
		}
	})
}

func TestTheReadersOfAKeyThatIsGoneAreVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		share(t, node, "10000", "join", "a")
		node.Del("k")
		says(t, "the release of a void reader", unshare(t, node, "1", "a"), 0)
		share(t, node, "10000", "join", "a")
		node.Del("k")
		share(t, node, "10000", "join", "b")
		says(t, "the release of the only one", unshare(t, node, "1", "b"), 1)
		if keys := node.Keys(); len(keys) != 0 {
			t.Errorf("%v are left", keys)
		}
	})
}

func TestDeadReadersDoNotKeepTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		share(t, node, "1000", "join", "a")
		share(t, node, "10000", "join", "b")
		time.Sleep(2 * time.Second)
		says(t, "a dead one's release", unshare(t, node, "1", "a"), 0)
		share(t, node, "1000", "join", "c")
		time.Sleep(2 * time.Second)
		says(t, "an upgrade beside a dead one", raise(t, node, "b", "w", "1000"), "[1]")
		has(t, node, "k", "w", 6*time.Second) // what was left of the lease
	})
}

func TestTheMarkKeepsNewcomersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		share(t, node, "10000", "join", "a")
		node.Set("ql:writer:{k}", "ql:w", time.Second)
		says(t, "a newcomer and one who is there", share(t, node, "10000", "join", "b", "a"), "[2 - ql:w 1000]")
		says(t, "an extension", share(t, node, "10000", "stay", "a"), "[1 - - 0]")
		says(t, "the last goes", unshare(t, node, "1", "a"), 1)
		says(t, "a newcomer where the key is free", share(t, node, "10000", "join", "b"), "[0 - ql:w 1000]")
		if keys := fmt.Sprint(node.Keys()); keys != "[ql:writer:{k}]" {
			t.Errorf("who was refused has left %s", keys)
		}
		time.Sleep(1100 * time.Millisecond)
		says(t, "behind the mark", share(t, node, "10000", "join", "b"), "[1 - - 0]")
		for _, other := range []string{"SET", "RPUSH"} {
			ask(t, node, "DEL", "ql:writer:{k}")
			ask(t, node, other, "ql:writer:{k}", "no mark")
			says(t, "beside what is no mark", share(t, node, "10000", "join", "c"), "[1 - - 0]")
			unshare(t, node, "1", "c")
		}
	})
}

func TestAWriterTurnsIntoAReaderAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("k", "w", 10*time.Second)
		says(t, "a downgrade", share(t, node, "5000", "turn", "r", "w"), "[1 - - 0]")
		has(t, node, "k", "ql:shared", 10*time.Second)
		says(t, "sent again", share(t, node, "5000", "turn", "r", "w"), "[1 - - 0]")
		says(t, "with another reader an upgrade", share(t, node, "5000", "join", "s")+raise(t, node, "r", "v", "1000"), "[1 - - 0][0 ql:shared 10000]")
		unshare(t, node, "1", "s")
		says(t, "of one who is not there", raise(t, node, "x", "v", "1000"), "[0 ql:shared 10000]")
		says(t, "alone", raise(t, node, "r", "v", "1000"), "[1]")
		has(t, node, "k", "v", 10*time.Second)
		says(t, "sent again", raise(t, node, "r", "v", "1000"), "[1]")
		says(t, "back of another token", share(t, node, "5000", "back", "r", "u"), "[0 - v 10000]")
		says(t, "back", share(t, node, "5000", "back", "r", "v"), "[1 - - 0]")
		says(t, "back again", share(t, node, "5000", "back", "r", "v"), "[0 - ql:shared 10000]")
		says(t, "the reader's release", unshare(t, node, "1", "r"), 1)
		says(t, "back where nobody is", share(t, node, "5000", "back", "r", "v"), "[0 - - -2]")
		says(t, "an upgrade where nobody is", raise(t, node, "r", "v", "1000"), "[1]")
		says(t, "the release of both", unshare(t, node, "2", "v", "r"), 1)
		if keys := node.Keys(); len(keys) != 0 {
			t.Errorf("%v are left", keys)
		}
	})
}

func TestReadersGetACounterAndDoNotRaiseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		counted := func(args ...string) string {
			return listed(ask(t, node, append(append([]string{"EVAL", scripts.Share.Source, "4"}, append(sides, "ql:fences:{1}")...), args...)...))
		}
		says(t, "where there is none", counted("1000", "join", "1763715001134567", "a"), "[1 1763715001134567 - 0]")
		says(t, "where there is one", counted("1000", "join", "1763715001134568", "b"), "[1 1763715001134567 - 0]")
		says(t, "a number that is to be there", counted("1000", "stay", "1763715001134569", "b"), "[1 1763715001134569 - 0]")
		ask(t, node, "ZADD", "ql:fences:{1}", "1763715001134570", "")
		says(t, "where the floor is above it", counted("1000", "join", "1763715001134568", "c"), "[1 1763715001134570 - 0]")
		says(t, "a number that is to be there, below the floor", counted("1000", "stay", "1763715001134569", "c"), "[1 1763715001134570 - 0]")
		ask(t, node, "ZADD", "ql:fences:{1}", "1763715001134571", "k")
		says(t, "where the counter is above it again", counted("1000", "join", "1763715001134568", "c"), "[1 1763715001134571 - 0]")
	})
}

func TestTheShareScriptsDestroyNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("ql:readers:{k}", "somebody's", 0)
		for _, reply := range []string{share(t, node, "1000", "join", "a"), raise(t, node, "a", "b", "1000")} {
			if keys := fmt.Sprint(node.Keys()); reply[0] == '[' || keys != "[ql:readers:{k}]" {
				t.Errorf("where the readers are a string the script says %s, and leaves %s", reply, keys)
			}
		}
		node.Del("ql:readers:{k}")
		ask(t, node, "RPUSH", "k", "item")
		for _, reply := range []string{share(t, node, "1000", "join", "a"), raise(t, node, "a", "b", "1000")} {
			if keys := fmt.Sprint(node.Keys()); reply[0] == '[' || keys != "[k]" {
				t.Errorf("where the key is a list the script says %s, and leaves %s", reply, keys)
			}
		}
		says(t, "a release where the key is a list", unshare(t, node, "1", "a"), 0)
	})
}

func TestTheLastReadersReleaseIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		share(t, node, "1000", "join", "a", "b")
		_, notices := listen(t, node, "free:", "free:k")
		says(t, "one of two", unshare(t, node, "1", "a", "free:"), 1<<32|1)
		says(t, "the last", unshare(t, node, "1", "b", "free:"), 1<<32|1)
		expect(t, notices, message("free:k", ""))
	})
}
