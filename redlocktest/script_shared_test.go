package redlocktest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// What shares a key, "k", beside it.
var sides = []string{"k", "ql:readers:{k}", "ql:line:{k}"}

// share runs the script that shares the key, for newcomers that have no rank, and shows its reply
// but for the time.
func share(t *testing.T, node *Node, ttl, mode string, tokens ...string) string {
	t.Helper()
	if mode == "join" {
		return joins(t, node, ttl, "0", queuer{}, tokens...)
	}
	return listed(ask(t, node, append(append([]string{"EVAL", scripts.Share.Source, "2"}, sides[:2]...), append([]string{ttl, mode, "0"}, tokens...)...)...))
}

// joins lets tokens share the key, and the queuer leave its ticket.
func joins(t *testing.T, node *Node, ttl, number string, q queuer, tokens ...string) string {
	t.Helper()
	keys, rank, ticket, stays, under := sides, "0", "r0:", "0", "0"
	if number != "0" {
		keys = append(slices.Clone(keys), "ql:fences:{1}")
	}
	for _, key := range q.held {
		keys, under = append(slices.Clone(keys), "ql:line:{"+key+"}"), "1"
	}
	if q.rank != 0 {
		rank = strconv.FormatInt(began()+q.rank, 10)
	}
	if q.ticket != "" {
		ticket, stays = q.ticket, "1500"
	}
	call := append([]string{"EVAL", scripts.Share.Source, strconv.Itoa(len(keys))}, keys...)
	return listed(ask(t, node, append(append(call, ttl, "join", number, rank, ticket, stays, under), tokens...)...))
}

// listed shows a list: nil as "-".
func listed(reply driver.Reply) string {
	if reply.Kind != driver.Array {
		return show(reply)
	}
	var elems []string
	all := reply.Elems
	if len(all) == 6 { // of share.lua: the time
		all = all[:5]
	}
	for _, e := range all {
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

func TestTheShareScriptLetsTokensShare(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		says(t, "two where the key is free", share(t, node, "10000", "join", "a", "b"), "[3 - - 0 0]")
		has(t, node, "k", "ql:shared", 10*time.Second)
		says(t, "a shorter lease", share(t, node, "5000", "stay", "a"), "[1 - - 0 0]")
		has(t, node, "k", "ql:shared", 10*time.Second)
		says(t, "a longer one", share(t, node, "20000", "join", "c"), "[1 - - 0 0]")
		has(t, node, "k", "ql:shared", 20*time.Second)
		says(t, "for how long the readers are kept", node.TTL("ql:readers:{k}"), 20*time.Second)
		says(t, "the longest goes", unshare(t, node, "1", "c"), 1)
		has(t, node, "k", "ql:shared", 10*time.Second)
		says(t, "the others, and one who is not there", unshare(t, node, "3", "a", "x", "b"), 0b101)
		says(t, "the keys that are left", fmt.Sprint(node.Keys()), "[]")
	})
}

func TestTheShareScriptRefusesWhatOthersHold(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		for _, holder := range []string{"theirs", ""} {
			node.Set("k", holder, 10*time.Second)
			for _, how := range [][]string{{"join", "a"}, {"stay", "a"}, {"turn", "a", "mine"}, {"back", "a", "mine"}} {
				says(t, how[0], share(t, node, "5000", how[0], how[1:]...), "[0 - "+holder+" 10000 0]")
			}
			says(t, "a reader who is not there", unshare(t, node, "1", "a"), 0)
			says(t, "an upgrade", raise(t, node, "a", "b", "1000"), "[0 "+holder+" 10000]")
			has(t, node, "k", holder, 10*time.Second)
		}
	})
}

func TestTheReadersOfAKeyThatIsGoneAreVoid(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		share(t, node, "10000", "join", "a")
		node.Del("k")
		says(t, "the release of a void reader", unshare(t, node, "1", "a"), 0)
		share(t, node, "10000", "join", "a")
		node.Del("k")
		share(t, node, "10000", "join", "b")
		says(t, "the release of the only one", unshare(t, node, "1", "b"), 1)
		says(t, "the keys that are left", fmt.Sprint(node.Keys()), "[]")
	})
}

func TestDeadReadersDoNotKeepTheKey(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
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

func TestATicketKeepsNewcomersOut(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		share(t, node, "10000", "join", "a")
		writer := queuer{token: "w", ticket: "x0:ee", rank: 20}
		refuses(t, take(t, node, writer), 1, "ql:shared", true)
		says(t, "a newcomer and one who is there", share(t, node, "10000", "join", "b", "a"), "[2 - ql:line x0:ee 1500 1500]")
		says(t, "an extension", share(t, node, "10000", "stay", "a"), "[1 - - 0 0]")
		says(t, "who came before", joins(t, node, "10000", "0", queuer{rank: 10}, "c"), "[1 - - 0 -1]")
		says(t, "who came later", joins(t, node, "10000", "0", queuer{rank: 30, ticket: "r0:dd"}, "d"), "[0 - ql:line x0:ee 1500 1500]")
		says(t, "beside who came later", joins(t, node, "10000", "0", queuer{rank: 10, ticket: "r0:aa"}, "c"), "[1 - - 0 -1]")
		inLine(t, node, "r0:aa", "x0:ee", "r0:dd")
		says(t, "the last go", unshare(t, node, "2", "a", "c"), 3)
		says(t, "a newcomer where the key is free", share(t, node, "10000", "join", "b"), "[0 - ql:line x0:ee 1500 1500]")
		refuses(t, take(t, node, writer), 1, "ql:line r0:aa", false) // a reader that came before
		leave(t, node, queuer{ticket: "r0:aa"})
		returns(t, take(t, node, writer), 2)
		says(t, "beside a holder", joins(t, node, "10000", "0", queuer{rank: 30}, "d"), "[0 - w 10000 1500]")
		leave(t, node, writer)
		free(t, node, "k")
		says(t, "behind a reader", share(t, node, "10000", "join", "b"), "[1 - - 0 -1]")
	})
}

// T waits for k and b; R, who has b, asks to read k.
func TestAReaderPassesWhoWaitsForWhatItHolds(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Take("b", time.Minute)
		theirs, _ := node.Get("b")
		refuses(t, take(t, node, queuer{keys: []string{"b", "k"}, ticket: "s2:7e.1", rank: 10}), 1, theirs, true)
		says(t, "under another lock", joins(t, node, "10000", "7", queuer{rank: 20, held: []string{"c"}}, "r"), "[0 - ql:line s2:7e.1 385 385]")
		says(t, "under the lock on b", joins(t, node, "10000", "7", queuer{rank: 20, held: []string{"b"}}, "r"), "[1 7 - 0 -1]")
	})
}

func TestAWriterTurnsIntoAReaderAndBack(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Set("k", "w", 10*time.Second)
		says(t, "a downgrade", share(t, node, "5000", "turn", "r", "w"), "[1 - - 0 0]")
		has(t, node, "k", "ql:shared", 10*time.Second)
		says(t, "sent again", share(t, node, "5000", "turn", "r", "w"), "[1 - - 0 0]")
		says(t, "with another reader an upgrade", share(t, node, "5000", "join", "s")+raise(t, node, "r", "v", "1000"), "[1 - - 0 0][0 ql:shared 10000]")
		unshare(t, node, "1", "s")
		says(t, "of one who is not there", raise(t, node, "x", "v", "1000"), "[0 ql:shared 10000]")
		says(t, "alone", raise(t, node, "r", "v", "1000"), "[1]")
		has(t, node, "k", "v", 10*time.Second)
		says(t, "sent again", raise(t, node, "r", "v", "1000"), "[1]")
		says(t, "back of another token", share(t, node, "5000", "back", "r", "u"), "[0 - v 10000 0]")
		says(t, "back", share(t, node, "5000", "back", "r", "v"), "[1 - - 0 0]")
		says(t, "back again", share(t, node, "5000", "back", "r", "v"), "[0 - ql:shared 10000 0]")
		says(t, "the reader's release", unshare(t, node, "1", "r"), 1)
		says(t, "back where nobody is", share(t, node, "5000", "back", "r", "v"), "[0 - - -2 0]")
		says(t, "an upgrade where nobody is", raise(t, node, "r", "v", "1000"), "[1]")
		says(t, "the release of both", unshare(t, node, "2", "v", "r"), 1)
		says(t, "the keys that are left", fmt.Sprint(node.Keys()), "[]")
	})
}

func TestReadersGetACounterAndDoNotRaiseIt(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		counted := func(ttl, mode, number, token string) string {
			if mode == "join" {
				return joins(t, node, ttl, number, queuer{}, token)
			}
			return listed(ask(t, node, append(append([]string{"EVAL", scripts.Share.Source, "3"}, append(slices.Clone(sides[:2]), "ql:fences:{1}")...), ttl, mode, number, token)...))
		}
		says(t, "where there is none", counted("1000", "join", "1763715001134567", "a"), "[1 1763715001134567 - 0 0]")
		says(t, "where there is one", counted("1000", "join", "1763715001134568", "b"), "[1 1763715001134567 - 0 0]")
		says(t, "a number that is to be there", counted("1000", "stay", "1763715001134569", "b"), "[1 1763715001134569 - 0 0]")
		ask(t, node, "ZADD", "ql:fences:{1}", "1763715001134570", "")
		says(t, "where the floor is above it", counted("1000", "join", "1763715001134568", "c"), "[1 1763715001134570 - 0 0]")
		says(t, "a number that is to be there, below the floor", counted("1000", "stay", "1763715001134569", "c"), "[1 1763715001134570 - 0 0]")
		ask(t, node, "ZADD", "ql:fences:{1}", "1763715001134571", "k")
		says(t, "where the counter is above it again", counted("1000", "join", "1763715001134568", "c"), "[1 1763715001134571 - 0 0]")
	})
}

func TestTheShareScriptsDestroyNothing(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
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
	alone(t, func(t *testing.T, node *Node) {
		share(t, node, "1000", "join", "a", "b")
		_, notices := listen(t, node, "free:", "free:k")
		says(t, "one of two", unshare(t, node, "1", "a", "free:"), 1<<32|1)
		says(t, "the last", unshare(t, node, "1", "b", "free:"), 1<<32|1)
		expect(t, notices, message("free:k", ""))
	})
}
