package redlocktest

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// holdAll runs the script that holds several keys.
func holdAll(t *testing.T, node *Node, keys []string, args ...string) driver.Reply {
	t.Helper()
	call := append([]string{"EVAL", scripts.HoldAll.Source, strconv.Itoa(len(keys))}, keys...)
	return ask(t, node, append(call, args...)...)
}

// refusedBy fails the test unless the reply names the place of a key, and what has it.
func refusedBy(t *testing.T, reply driver.Reply, place int64, holder string) {
	t.Helper()
	if len(reply.Elems) != 4 || reply.Elems[0].Int != place || reply.Elems[1].Str != holder || reply.Elems[2].Int <= 0 || reply.Elems[3].Int <= 0 {
		t.Errorf("the script returned %s, want that key %d is held by %q, for how long, and the time", show(reply), place, holder)
	}
}

func TestTheHoldAllScriptTakesAllKeysOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		keys := []string{"a", "b", "c"}
		node.Take("c", time.Minute)
		theirs, _ := node.Get("c")
		refusedBy(t, holdAll(t, node, keys, "ours", "10000", "3", "0"), 3, theirs)
		if got := node.Keys(); len(got) != 1 {
			t.Errorf("a refused script has left %q", got)
		}
		ask(t, node, "DEL", "c")
		for _, tt := range []struct{ ask, want time.Duration }{
			{10 * time.Second, 10 * time.Second},
			{20 * time.Second, 20 * time.Second},
			{5 * time.Second, 20 * time.Second},
		} {
			if got := holdAll(t, node, keys, "ours", strconv.FormatInt(tt.ask.Milliseconds(), 10), "3", "0"); got.Kind != driver.Integer || got.Int != 1 {
				t.Errorf("of keys that are free or its own the script returned %s, want 1", show(got))
			}
			for _, key := range keys {
				has(t, node, key, "ours", tt.want)
			}
		}
		ask(t, node, "DEL", "b")
		ask(t, node, "RPUSH", "b", "a list")
		if got := holdAll(t, node, keys, "ours", "10000", "3", "0"); len(got.Elems) != 1 || got.Elems[0].Int != 2 {
			t.Errorf("of a key that is a list the script returned %s, want its place alone", show(got))
		}
	})
}

func TestTheHoldAllScriptCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		keys := []string{"a", "b", "ql:fences:{1}", "ql:fences:{2}"}
		ask(t, node, "ZADD", "ql:fences:{2}", "7", "b")
		for _, tt := range []struct {
			number, floor string
			want          int64
		}{{"7", "1", 0}, {"8", "1", 1}, {"8", "1", 0}, {"9", "9", 0}, {"10", "9", 1}} {
			ask(t, node, "ZADD", "ql:fences:{1}", tt.floor, "")
			if got := holdAll(t, node, keys, "ours", "10000", "2", tt.number); got.Kind != driver.Integer || got.Int != tt.want {
				t.Errorf("for the number %s the script returned %s, want %d", tt.number, show(got), tt.want)
			}
		}
	})
}

func TestTheHoldAllScriptHeedsNoMarkOfThoseWhoWaitForItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		try := func(carried ...string) driver.Reply {
			keys := append(append([]string{"a", "b"}, carried...), "ql:wanted:{a}", "ql:wanted:{b}")
			return holdAll(t, node, keys, "ours", "10000", "2", "0", "0", "0", "0")
		}
		ask(t, node, "SET", "ql:wanted:{a}", "ql:wanted 100 aa", "PX", "60000")
		ask(t, node, "SET", "ql:wanted:{held}", "ql:wanted 90 bb", "PX", "60000")
		for _, carried := range [][]string{nil, {"ql:wanted:{held}"}, {"ql:wanted:{free}"}} {
			refusedBy(t, try(carried...), 1, "ql:wanted 100 aa")
		}
		ask(t, node, "SET", "ql:wanted:{held}", "ql:wanted 100 aa", "PX", "60000")
		if got := try("ql:wanted:{free}", "ql:wanted:{held}"); got.Int != 1 {
			t.Errorf("beside the mark of one who waits for the caller the script returned %s, want 1", show(got))
		}
	})
}

func TestTheHoldAllScriptHeedsTheMarksOfThoseWhoCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		keys := []string{"a", "b", "ql:wanted:{a}", "ql:wanted:{b}"}
		try := func(token, ticket, name, stays string) driver.Reply {
			return holdAll(t, node, keys, token, "10000", "2", "0", ticket, name, stays)
		}
		node.Take("b", time.Minute)
		theirs, _ := node.Get("b")
		refusedBy(t, try("first", "100", "aa", "750"), 2, theirs)
		if left := node.TTL("ql:wanted:{a}"); left != 750*time.Millisecond {
			t.Errorf("a mark stays for %v, want 750 ms", left)
		}
		refusedBy(t, try("later", "200", "bb", "750"), 2, theirs)
		ask(t, node, "DEL", "b")
		for _, later := range [][]string{{"later", "200", "bb", "750"}, {"same time", "100", "bb", "0"}, {"new", "0", "0", "0"}} {
			refusedBy(t, try(later[0], later[1], later[2], later[3]), 1, "ql:wanted 100 aa")
		}
		if got := try("before", "50", "cc", "0"); got.Int != 1 {
			t.Errorf("to who came before the script returned %s, want 1", show(got))
		}
		ask(t, node, "DEL", "a", "b")
		if got := try("first", "100", "aa", "750"); got.Int != 1 || node.TTL("ql:wanted:{a}") != 750*time.Millisecond {
			t.Errorf("to who has marked the keys the script returned %s, and keeps the mark for %v; want 1 and 750 ms", show(got), node.TTL("ql:wanted:{a}"))
		}
		if got := try("first", "100", "aa", "0"); got.Int != 1 {
			t.Errorf("to its holder the script returned %s, want 1", show(got))
		}
		if mark, ok := node.Get("ql:wanted:{a}"); ok {
			t.Errorf("who does not stay has left the mark %q", mark)
		}
		ask(t, node, "SET", "ql:wanted:{a}", "a lock of that name")
		ask(t, node, "DEL", "a", "b")
		node.Take("b", time.Minute)
		try("other", "300", "dd", "750")
		if value, _ := node.Get("ql:wanted:{a}"); value != "a lock of that name" {
			t.Errorf("a mark has replaced what is none by %q", value)
		}
	})
}
