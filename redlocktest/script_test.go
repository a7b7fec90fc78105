package redlocktest

import (
	"fmt"
	"strconv"
	"strings"
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

// slot asks for a slot, and returns what the script says in words.
func slot(t *testing.T, node *Node, keys int, args ...string) string {
	t.Helper()
	return show(ask(t, node, append([]string{"EVAL", scripts.Slot.Source, strconv.Itoa(keys)}, args...)...))
}

func TestTheSlotScriptHoldsAsTheHoldScriptDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		for _, tt := range []struct {
			token, ttl, old string
			want            int64
			held            time.Duration
		}{
			{"first", "10000", "", 2, 10 * time.Second},
			{"first", "20000", "", 1, 20 * time.Second},
			{"first", "5000", "", 1, 20 * time.Second},
			{"heir", "10000", "first", 3, 10 * time.Second},
			{"heir", "15000", "first", 1, 15 * time.Second},
		} {
			args := []string{"slot", "permits", "mark", tt.token, tt.ttl, "3", "1", "0"}
			if tt.old != "" {
				args = append(args, "", "", "0", tt.old)
			}
			if got := run(t, node, scripts.Slot, 3, args...); got != tt.want {
				t.Errorf("to %q it says %d, want %d", args, got, tt.want)
			}
			has(t, node, "slot", tt.token, tt.held)
		}
		has(t, node, "permits", "3", 40*time.Second) // twice the longest
	})
}

func TestTheSlotScriptSaysWhichSlotsAreThereWhereItRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("slot 0", "theirs", time.Minute)
		node.Set("slot 2", "somebody's", 30*time.Second)
		ask(t, node, "LPUSH", "slot 3", "a list")
		all := []string{"slot 0", "slot 1", "slot 2", "slot 3"}
		for i, holder := range map[int]string{0: "theirs", 2: "somebody's", 3: ""} {
			args := append(append([]string{all[i], "permits", "mark"}, all...), "ours", "10000", "4", "1", "0")
			if got, want := slot(t, node, 7, args...), fmt.Sprintf("[%q 30000 \"1011\" %d 0]", holder, time.Now().UnixMicro()); got != want {
				t.Errorf("for %s, which %q has, the script says %s, want %s", all[i], holder, got, want)
			}
		}
		for _, old := range []string{"ours", ""} {
			if got, want := slot(t, node, 3, "slot 0", "permits", "mark", "new", "10000", "4", "1", "0", "", "", "0", old), fmt.Sprintf(`["theirs" -1 "" %d 0]`, time.Now().UnixMicro()); got != want {
				t.Errorf("to who does not look at the slots the script says %s, want %s", got, want)
			}
		}
		if _, found := node.Get("permits"); found {
			t.Error("a script that has refused keeps the number of permits")
		}
		has(t, node, "slot 0", "theirs", time.Minute)
	})
}

func TestTheSlotScriptRefusesAnotherNumberOfPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		run(t, node, scripts.Slot, 3, "slot 0", "permits", "mark", "ours", "10000", "3", "1", "0")
		for _, args := range [][]string{
			{"slot 1", "permits", "mark", "theirs", "10000", "4", "1", "0", "5", "a", "750"},
			{"slot 0", "permits", "mark", "ours", "60000", "4", "1", "0"},
		} {
			if got, want := slot(t, node, 3, args...), `"3"`; got != want {
				t.Errorf("to %q the script says %s, want the number that the others count, %s", args, got, want)
			}
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
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("slot 1", "theirs", time.Minute)
		two := []string{"slot 0", "slot 1", "permits", "mark", "c0", "c1", "ours", "10000", "4", "2", "7"}
		if got, want := slot(t, node, 6, two...), fmt.Sprintf(`["theirs" -1 "" %d 0]`, time.Now().UnixMicro()); got != want {
			t.Errorf("with the second of two slots taken the script says %s, want %s", got, want)
		}
		for _, key := range []string{"slot 0", "permits", "c0", "c1"} {
			if _, found := node.Get(key); found {
				t.Errorf("%q was set though a slot was taken", key)
			}
		}
		ask(t, node, "DEL", "slot 1")
		if got := run(t, node, scripts.Slot, 6, two...); got != 2 {
			t.Errorf("with two slots free the script says %d, want 2", got)
		}
		has(t, node, "slot 0", "ours", 10*time.Second)
		has(t, node, "slot 1", "ours", 10*time.Second)
		if got := run(t, node, scripts.Slot, 6, two...); got != 0 {
			t.Errorf("for a number that the counters have the script says %d, want 0", got)
		}
		two[10] = "8"
		if got := run(t, node, scripts.Slot, 6, two...); got != 1 {
			t.Errorf("for a token that has both slots the script says %d, want 1", got)
		}
		for set, member := range map[string]string{"c0": "slot 0", "c1": "slot 1"} {
			if got := show(ask(t, node, "ZSCORE", set, member)); got != `"8"` {
				t.Errorf("the counter of %s has %s, want 8", member, got)
			}
		}
		ask(t, node, "ZADD", "c1", "9", "")
		two[10] = "9"
		if got := run(t, node, scripts.Slot, 6, two...); got != 0 {
			t.Errorf("for a number that is not above a floor the script says %d, want 0", got)
		}
	})
}

func TestTheSlotScriptKeepsSlotsForTheFirstWhoWantsSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		node.Set("slot 0", "theirs", time.Minute)
		ask2 := func(token, ticket, name, stays string) string {
			return slot(t, node, 4, "slot 0", "slot 1", "permits", "mark", token, "10000", "2", "2", "0", ticket, name, stays)
		}
		ask1 := func(token, ticket string) string {
			return slot(t, node, 3, "slot 1", "permits", "mark", token, "10000", "2", "1", "0", ticket, "e", "500")
		}
		refusal := func(by string, kept int) string {
			return fmt.Sprintf(`[%q -1 "" %d %d]`, by, time.Now().UnixMicro(), kept)
		}
		mark := func(want string, stays time.Duration) {
			t.Helper()
			has(t, node, "mark", want, stays)
		}
		for _, tt := range []struct {
			ticket, name string
			kept         int
			mark         string
		}{
			{"20", "b", 0, "ql:wanted 20 b"},
			{"30", "a", 750, "ql:wanted 20 b"}, // it came later
			{"20", "c", 750, "ql:wanted 20 b"}, // the name decides
			{"10", "a", 0, "ql:wanted 10 a"},
		} {
			if got := ask2("large", tt.ticket, tt.name, "750"); got != refusal("theirs", tt.kept) {
				t.Errorf("to who came at %s the script says %s, want %s", tt.ticket, got, refusal("theirs", tt.kept))
			}
			mark(tt.mark, 750*time.Millisecond)
		}
		for _, ticket := range []string{"0", "11"} {
			if got, want := ask1("small", ticket), refusal("ql:wanted 10 a", 750); got != want {
				t.Errorf("to who came later and wants a free slot the script says %s, want %s", got, want)
			}
		}
		if got := slot(t, node, 3, "slot 1", "permits", "mark", "passes", "10000", "2", "1", "0"); got != "2" {
			t.Errorf("to who heeds no mark the script says %s, want 2", got)
		}
		if got := ask1("passes", "0"); got != "1" {
			t.Errorf("to who has the slot the script says %s, want 1: the mark is not in his way", got)
		}
		ask(t, node, "DEL", "slot 1")
		if got := ask1("small", "9"); got != "2" {
			t.Errorf("to who came before the script says %s, want 2", got)
		}
		mark("ql:wanted 10 a", 750*time.Millisecond) // who wants one leaves a mark only where it is refused
		if got, want := ask1("another", "9"), refusal("small", 0); got != want {
			t.Errorf("to who came before and wants a slot that is taken the script says %s, want %s", got, want)
		}
		mark("ql:wanted 9 e", 500*time.Millisecond)
		ask(t, node, "DEL", "mark")
		ask2("large", "10", "a", "750")
		ask2("large", "10", "a", "0")
		if _, found := node.Get("mark"); found {
			t.Error("a mark is there whose owner does not stay")
		}
		ask(t, node, "LPUSH", "mark", "a list")
		if got := ask2("large", "10", "a", "750"); got != refusal("theirs", 0) {
			t.Errorf("beside a list in place of the mark the script says %s", got)
		}
		if got := show(ask(t, node, "TYPE", "mark")); !strings.Contains(got, "list") {
			t.Errorf("the list is %s now", got)
		}
	})
}
