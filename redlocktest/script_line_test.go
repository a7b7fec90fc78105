package redlocktest

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
	"github.com/quorumlock/quorumlock/redlock"
)

// A queuer stands in the line of the key "k" of a node, at a place.
type queuer struct {
	name  string
	place int
	again bool // a try before may have left the name there
}

// stand tries for the key, and stands in line for 1.5 s. A queuer without a name does not.
func stand(t *testing.T, node *Node, q queuer) driver.Reply {
	t.Helper()
	stays, again := "1500", "0"
	if q.name == "" {
		stays = "0"
	}
	if q.again {
		again = "1"
	}
	return ask(t, node, "EVAL", scripts.Stand.Source, "3", "k", "ql:line:{k}", "ql:live:{k}",
		"token of "+q.name, "10000", q.name, strconv.Itoa(q.place), stays, again, "ql:free:")
}

// leave takes a name out of the line, or moves it to a place.
func leave(t *testing.T, node *Node, name string, place ...string) {
	t.Helper()
	call := []string{"EVAL", scripts.Leave.Source, "3", "k", "ql:line:{k}", "ql:live:{k}", name, "ql:free:"}
	if reply := ask(t, node, append(call, place...)...); reply.Int != 1 {
		t.Errorf("leaving the line: %s", show(reply))
	}
}

// grants fails the test unless the key was given, with so many standing behind.
func grants(t *testing.T, reply driver.Reply, behind bool) {
	t.Helper()
	want := int64(1)
	if behind {
		want = 2
	}
	if reply.Kind != driver.Integer || reply.Int != want {
		t.Errorf("the script returned %s, want %d", show(reply), want)
	}
}

// refuses fails the test unless the reply says who has the key, and whether nobody is before.
func refuses(t *testing.T, reply driver.Reply, holder string, first bool) {
	t.Helper()
	if len(reply.Elems) != 4 || reply.Elems[0].Str != holder || reply.Elems[1].Int <= 0 || reply.Elems[2].Int <= 0 || (reply.Elems[3].Int == 1) != first {
		t.Errorf("the script returned %s, want that %q has the key, for how long, the time, and whether one is first: %v", show(reply), holder, first)
	}
}

// inLine fails the test unless these names stand in line.
func inLine(t *testing.T, node *Node, names ...string) {
	t.Helper()
	reply := ask(t, node, "ZRANGE", "ql:line:{k}", "0", "-1")
	if len(reply.Elems) != len(names) {
		t.Errorf("in line are %s, want %q", show(reply), names)
		return
	}
	for i, name := range names {
		if reply.Elems[i].Str != name {
			t.Errorf("in line are %s, want %q", show(reply), names)
		}
	}
}

func TestTheStandScriptGivesAFreeKeyToTheFirstInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		early, late := queuer{name: "early", place: 10}, queuer{name: "late", place: 20}
		grants(t, stand(t, node, queuer{}), false)
		has(t, node, "k", "token of ", 10*time.Second)
		refuses(t, stand(t, node, late), "token of ", true)
		refuses(t, stand(t, node, early), "token of ", true)
		refuses(t, stand(t, node, late), "token of ", false)
		inLine(t, node, "early", "late")
		ask(t, node, "DEL", "k")
		refuses(t, stand(t, node, queuer{}), "ql:line early", false) // a newcomer
		refuses(t, stand(t, node, late), "ql:line early", false)
		grants(t, stand(t, node, early), true)
		inLine(t, node, "late")
		grants(t, stand(t, node, early), false) // it has it
		early.again = true
		ask(t, node, "DEL", "k")
		grants(t, stand(t, node, early), true)
		inLine(t, node, "early", "late") // it may have to give back
		leave(t, node, "early")
		inLine(t, node, "late")
	})
}

func TestTheStandScriptOrdersEqualPlacesByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		grants(t, stand(t, node, queuer{}), false)
		refuses(t, stand(t, node, queuer{name: "b", place: 10}), "token of ", true)
		refuses(t, stand(t, node, queuer{name: "c", place: 10}), "token of ", false)
		refuses(t, stand(t, node, queuer{name: "a", place: 10}), "token of ", true)
	})
}

func TestTheStandScriptPassesOverWhoDoesNotShowHimself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		grants(t, stand(t, node, queuer{}), false)
		for i := range 3 {
			refuses(t, stand(t, node, queuer{name: "dead" + strconv.Itoa(i), place: i}), "token of ", i == 0)
		}
		ask(t, node, "DEL", "k")
		time.Sleep(time.Second)
		late := queuer{name: "late", place: 20}
		refuses(t, stand(t, node, late), "ql:line dead0", false)
		time.Sleep(501 * time.Millisecond)
		grants(t, stand(t, node, late), false)
		inLine(t, node)
		if keys := node.Keys(); len(keys) != 1 {
			t.Errorf("of an empty line is left: %q", keys)
		}
	})
}

func TestTheStandScriptPassesOverAPlaceFromBeforeAClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		ask(t, node, "ZADD", "ql:line:{k}", "1", "dead")
		ask(t, node, "ZADD", "ql:live:{k}", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), "dead")
		grants(t, stand(t, node, queuer{name: "late", place: 20}), false)
	})
}

func TestTheLeaveScriptTellsWhoIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		_, notices := listen(t, node, "ql:free:k", "ql:free:k early", "ql:free:k late")
		grants(t, stand(t, node, queuer{}), false)
		for _, q := range []queuer{{name: "early", place: 10}, {name: "late", place: 20}} {
			stand(t, node, q)
		}
		leave(t, node, "other")
		expect(t, notices, message("ql:free:k early", "10"))
		stand(t, node, queuer{name: "urgent", place: 5})
		expect(t, notices, message("ql:free:k early", "10 behind"))
		leave(t, node, "urgent")
		expect(t, notices, message("ql:free:k early", "10"))
		leave(t, node, "early")
		expect(t, notices, message("ql:free:k late", "20"))
		leave(t, node, "early", "10", "1500") // the next waiter of the same process
		expect(t, notices, message("ql:free:k early", "10"))
		ask(t, node, "DEL", "k")
		refuses(t, stand(t, node, queuer{name: "late", place: 20}), "ql:line early", false)
		expect(t, notices, message("ql:free:k early", "10 free"))
		leave(t, node, "") // one listens to the key, and two stand in line
		expect(t, notices, message("ql:free:k early", "10 free"))
		time.Sleep(1600 * time.Millisecond)
		leave(t, node, "")
		expect(t, notices, message("ql:free:k", ""))
		synctest.Wait()
		if len(notices) > 0 {
			t.Errorf("received %v as well", <-notices)
		}
	})
}

func TestTheLeaveScriptIsRunByAWaiterThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := StartInBubble(t, 3)
		nodes.Take("k", time.Minute)
		locker, err := redlock.New(nodes.Drivers(), redlock.WithFairness())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = locker.Close() }()
		if _, err := locker.Acquire(t.Context(), "k", redlock.WithMaxWait(time.Second)); !errors.Is(err, redlock.ErrTaken) {
			t.Errorf("Acquire = %v, want ErrTaken", err)
		}
		synctest.Wait()
		for _, node := range nodes {
			inLine(t, node)
		}
	})
}
