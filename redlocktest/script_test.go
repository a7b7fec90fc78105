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
	alone(t, func(t *testing.T, node *Node) {
		says(t, "where the key was missing", run(t, node, scripts.Hold, 1, "key", "ours", "10000"), 2)
		has(t, node, "key", "ours", 10*time.Second)
		for _, other := range [][]string{{"key", "theirs", "20000"}, {"key", "theirs", "20000", "somebody's"}} {
			says(t, fmt.Sprintf("to %q, where another has the key", other), run(t, node, scripts.Hold, 1, other...), 0)
			has(t, node, "key", "ours", 10*time.Second)
		}
	})
}

func TestTheHoldScriptProlongsAndNeverShortens(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		run(t, node, scripts.Hold, 1, "key", "ours", "10000")
		for _, tt := range []struct{ ask, want time.Duration }{
			{20 * time.Second, 20 * time.Second},
			{5 * time.Second, 20 * time.Second},
		} {
			says(t, "where the token has the key", run(t, node, scripts.Hold, 1, "key", "ours", strconv.FormatInt(tt.ask.Milliseconds(), 10)), 1)
			has(t, node, "key", "ours", tt.want)
		}
	})
}

func TestTheHoldScriptTakesOverFromTheTokenThatIsGivenAway(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Set("key", "ours", time.Minute)
		says(t, "where the token that is given away has the key", run(t, node, scripts.Hold, 1, "key", "the heir's", "10000", "ours"), 3)
		has(t, node, "key", "the heir's", 10*time.Second)
		says(t, "where nobody has the key", run(t, node, scripts.Hold, 1, "gone", "the heir's", "10000", "ours"), 2)
		has(t, node, "gone", "the heir's", 10*time.Second)
	})
}

func TestTheExtendScriptProlongsWhatItsTokensHoldAndSetsWhatIsMissing(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
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
	alone(t, func(t *testing.T, node *Node) {
		node.Set("ours", "1", 10*time.Second)
		ask(t, node, "ZADD", "no lock", "1", "member")
		reply := ask(t, node, "EVAL", scripts.Extend.Source, "3", "ours", "gone", "no lock", "1", "2", "3", "20000", "20000", "20000")
		if reply.Kind != driver.Failure {
			t.Errorf("where a key is no lock the script returns %s, want an error", show(reply))
		}
		has(t, node, "ours", "1", 10*time.Second)
		says(t, "the keys that are there", fmt.Sprint(node.Keys()), "[no lock ours]")
	})
}

func TestTheReleaseScriptDeletesNothingButWhatItsTokensHold(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Set("ours", "1", time.Minute)
		node.Set("theirs", "x", time.Minute)
		node.Set("ours too", "4", time.Minute)
		ask(t, node, "ZADD", "no lock", "1", "member")
		got := run(t, node, scripts.Release, 5, "ours", "theirs", "gone", "ours too", "no lock", "1", "2", "3", "4", "5")
		if want := int64(1<<0 | 1<<3); got != want {
			t.Errorf("the script says that it deleted %b, want %b", got, want)
		}
		says(t, "the keys that are left of five", fmt.Sprint(node.Keys()), "[no lock theirs]")
	})
}

func TestTheReleaseScriptAnnouncesWhatItDeletes(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Set("unheard", "1", time.Minute)
		says(t, "where nobody listens", run(t, node, scripts.Release, 1, "unheard", "1", "free:"), 1)
		_, notices := listen(t, node, "free:", "free:ours", "free:theirs")
		node.Set("ours", "1", time.Minute)
		node.Set("theirs", "x", time.Minute)
		reply := ask(t, node, "EVAL", scripts.Release.Source, "2", "theirs", "ours", "2", "1", "free:")
		says(t, "where one listens", show(reply), fmt.Sprintf("[%d %d]", 1<<32|1<<1, 1<<1))
		expect(t, notices, message("free:ours", ""))
		node.Set("ours", "1", time.Minute)
		says(t, "without a channel", run(t, node, scripts.Release, 1, "ours", "1"), 1)
		node.Set("theirs", "1", time.Minute)
		ask(t, node, "EVAL", scripts.Release.Source, "1", "theirs", "1", "free:")
		expect(t, notices, message("free:theirs", "")) // and nothing of the release without one
	})
}

func TestTheReleaseScriptAnnouncesInAClusterWhereverTheListenersAre(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		_, notices := listen(t, node, "free:ours") // nobody at "free:"
		node.Set("ours", "1", time.Minute)
		ask(t, node, "EVAL", scripts.Release.Source, "1", "ours", "1", "free:", "1")
		expect(t, notices, message("free:ours", ""))
	})
}

// slot asks for a slot, and returns what the script says in words.
func slot(t *testing.T, node *Node, keys int, args ...string) string {
	t.Helper()
	return show(ask(t, node, append([]string{"EVAL", scripts.Slot.Source, strconv.Itoa(keys)}, args...)...))
}

func TestTheSlotScriptHoldsAsTheHoldScriptDoes(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		for _, tt := range []struct {
			ttl  string
			want int64
			held time.Duration
		}{
			{"10000", 2, 10 * time.Second},
			{"20000", 1, 20 * time.Second},
			{"5000", 1, 20 * time.Second},
		} {
			args := []string{"slot", "permits", "mark", "first", tt.ttl, "3", "1", "0"}
			says(t, fmt.Sprintf("to %q", args), run(t, node, scripts.Slot, 3, args...), tt.want)
			has(t, node, "slot", "first", tt.held)
		}
		has(t, node, "permits", "3", 40*time.Second) // twice the longest
	})
}

func TestTheSlotScriptSaysWhichSlotsAreThereWhereItRefuses(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Set("slot 0", "theirs", time.Minute)
		node.Set("slot 2", "somebody's", 30*time.Second)
		ask(t, node, "LPUSH", "slot 3", "a list")
		all := []string{"slot 0", "slot 1", "slot 2", "slot 3"}
		for i, holder := range map[int]string{0: "theirs", 2: "somebody's", 3: ""} {
			args := append(append([]string{all[i], "permits", "mark"}, all...), "ours", "10000", "4", "1", "0")
			says(t, fmt.Sprintf("for %s, which %q has", all[i], holder), slot(t, node, 7, args...), fmt.Sprintf("[%q 30000 \"1011\" %d 0]", holder, time.Now().UnixMicro()))
		}
		says(t, "to who does not look at the slots", slot(t, node, 3, "slot 0", "permits", "mark", "new", "10000", "4", "1", "0"), fmt.Sprintf(`["theirs" -1 "" %d 0]`, time.Now().UnixMicro()))
		if _, found := node.Get("permits"); found {
			t.Error("a script that has refused keeps the number of permits")
		}
		has(t, node, "slot 0", "theirs", time.Minute)
	})
}

func TestTheSlotScriptRefusesAnotherNumberOfPermits(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		run(t, node, scripts.Slot, 3, "slot 0", "permits", "mark", "ours", "10000", "3", "1", "0")
		for _, args := range [][]string{
			{"slot 1", "permits", "mark", "theirs", "10000", "4", "1", "0", "5", "a", "750"},
			{"slot 0", "permits", "mark", "ours", "60000", "4", "1", "0"},
		} {
			says(t, fmt.Sprintf("to %q", args), slot(t, node, 3, args...), `"3"`)
		}
		has(t, node, "slot 0", "ours", 10*time.Second)
		has(t, node, "permits", "3", 20*time.Second)
		for _, key := range []string{"slot 1", "mark"} {
			if _, found := node.Get(key); found {
				t.Errorf("%q was set for a client that counts another number of permits", key)
			}
		}
	})
}

func TestTheSlotScriptGivesAllSlotsOrNone(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Set("slot 1", "theirs", time.Minute)
		two := []string{"slot 0", "slot 1", "permits", "mark", "c0", "c1", "ours", "10000", "4", "2", "7"}
		says(t, "with the second of two slots taken", slot(t, node, 6, two...), fmt.Sprintf(`["theirs" -1 "" %d 0]`, time.Now().UnixMicro()))
		for _, key := range []string{"slot 0", "permits", "c0", "c1"} {
			if _, found := node.Get(key); found {
				t.Errorf("%q was set though a slot was taken", key)
			}
		}
		ask(t, node, "DEL", "slot 1")
		says(t, "with two slots free", run(t, node, scripts.Slot, 6, two...), 2)
		has(t, node, "slot 0", "ours", 10*time.Second)
		has(t, node, "slot 1", "ours", 10*time.Second)
		says(t, "for a number that the counters have", run(t, node, scripts.Slot, 6, two...), 0)
		two[10] = "8"
		says(t, "for a token that has both slots", run(t, node, scripts.Slot, 6, two...), 1)
		for set, member := range map[string]string{"c0": "slot 0", "c1": "slot 1"} {
			says(t, fmt.Sprintf("the counter of %s", member), show(ask(t, node, "ZSCORE", set, member)), `"8"`)
		}
		ask(t, node, "ZADD", "c1", "9", "")
		two[10] = "9"
		says(t, "for a number that is not above a floor", run(t, node, scripts.Slot, 6, two...), 0)
	})
}

func TestTheSlotScriptKeepsSlotsForThoseWhoStandInLine(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Set("slot 0", "theirs", time.Minute)
		rank := func(n int) string { return strconv.FormatInt(began()+int64(n), 10) }
		ask2 := func(token string, at int, ticket string) string {
			return slot(t, node, 4, "slot 0", "slot 1", "permits", "line", token, "10000", "2", "2", "0", rank(at), ticket, "1500", "2")
		}
		ask1 := func(token string, at, most int, stays string) string {
			since := "0"
			if at > 0 {
				since = rank(at)
			}
			return slot(t, node, 3, "slot 1", "permits", "line", token, "10000", "2", "1", "0", since, "x0:ee", stays, strconv.Itoa(most))
		}
		refusal := func(by string, kept int) string {
			return fmt.Sprintf(`[%q -1 "" %d %d]`, by, time.Now().UnixMicro(), kept)
		}
		for _, tt := range []struct {
			at     int
			ticket string
			kept   int
		}{
			{20, "s2:bb.1", 0},
			{30, "s2:aa.1", 385}, // it came later: until the other may rest
			{20, "s2:cc.1", 385}, // the ticket decides
			{10, "s2:aa.2", -1},
		} {
			says(t, fmt.Sprintf("to who came at %d", tt.at), ask2("large", tt.at, tt.ticket), refusal("theirs", tt.kept))
		}
		for _, at := range []int{0, 11} {
			says(t, "to who came later and wants a free slot", ask1("small", at, 2, "0"), refusal("ql:line s2:aa.2", 385))
		}
		says(t, "to who has one of two permits", ask1("under a permit", 40, 1, "0"), "2")
		says(t, "to who has the slot", ask1("under a permit", 40, 2, "0"), "1")
		says(t, "to who came before and wants a slot that is taken", ask1("before", 9, 2, "1500"), refusal("under a permit", -1))
		ask(t, node, "DEL", "slot 1")
		says(t, "behind one who wants one permit", slot(t, node, 3, "slot 1", "permits", "line", "large", "10000", "2", "1", "0", rank(10), "s2:aa.2", "0", "2"), refusal("ql:line x0:ee", 1500))
		says(t, "to who heeds nobody", slot(t, node, 3, "slot 1", "permits", "line", "heeds nobody", "10000", "2", "1", "0"), "2")
	})
}

func TestTheLeaveScriptTellsThoseWhoWaitForPermits(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		_, notices := listen(t, node, "ql:free:line", "ql:free:line aa")
		node.Set("slot 0", "theirs", time.Minute)
		rank := strconv.FormatInt(began()+10, 10)
		slot(t, node, 3, "slot 0", "permits", "line", "large", "10000", "1", "1", "0", rank, "s2:aa.2", "1500", "2")
		leaves := func(ticket string) {
			ask(t, node, "EVAL", scripts.Leave.Source, "2", "line", "line", ticket, "ql:free:", "")
		}
		leaves("x0:bb")
		expect(t, notices, message("ql:free:line aa", rank+" free"))
		leaves("s2:aa.2")
		expect(t, notices, message("ql:free:line", ""))
	})
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
	alone(t, func(t *testing.T, node *Node) {
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
	alone(t, func(t *testing.T, node *Node) {
		says(t, "a key that is free", revoke(t, node, "theirs", "5000"), "[0 -2]")
		says(t, "the keys that are left", fmt.Sprint(node.Keys()), "[]")
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
	alone(t, func(t *testing.T, node *Node) {
		ask(t, node, "SET", "k", "1")
		says(t, "a lock without an expiry", revoke(t, node, "1", "0"), "[1 60000]")
		has(t, node, "k", tombstone, time.Minute)
	})
}

func TestTheRevokeScriptTakesAKeyFromAllItsReaders(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		share(t, node, "20000", "join", "a")
		share(t, node, "10000", "join", "b")
		says(t, "readers who are not there", revokeReaders(t, node, "x", "y"), "[0 20000]")
		has(t, node, "k", "ql:shared", 20*time.Second)
		time.Sleep(15 * time.Second)
		says(t, "a reader whose lease is over", revokeReaders(t, node, "b"), "[0 5000]")
		says(t, "one of the readers", revokeReaders(t, node, "b", "a"), "[1 5000]")
		has(t, node, "k", tombstone, 5*time.Second)
		for _, mode := range []string{"join", "stay"} {
			says(t, "a reader's renewal", share(t, node, "20000", mode, "a"), fmt.Sprintf("[0 - %s 5000 0]", tombstone))
		}
		says(t, "a reader's upgrade", raise(t, node, "a", "w", "20000"), fmt.Sprintf("[0 %s 5000]", tombstone))
		says(t, "a reader's release", unshare(t, node, "1", "a"), 0)
		has(t, node, "k", tombstone, 5*time.Second)
		time.Sleep(5*time.Second + time.Millisecond)
		says(t, "the first one behind it", share(t, node, "10000", "join", "c"), "[1 - - 0 0]")
		if members := ask(t, node, "ZRANGE", "ql:readers:{k}", "0", "-1"); len(members.Elems) != 1 {
			t.Errorf("behind the tombstone there are %s, want c alone", listed(members))
		}
	})
}
