package inspect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// A listedNode is a node that lists its keys in an order of its own.
type listedNode struct {
	*fakenode.Node
	order  []string
	onScan func(n *listedNode)
}

// listedNodes are three nodes of which each has some of the keys.
func listedNodes(values map[string]string, has func(node int, key string) bool) (nodes []driver.Node, all []*listedNode) {
	for i := range 3 {
		n := &listedNode{Node: fakenode.New(fmt.Sprint("node", i+1))}
		n.Answer = n.answer
		for key, value := range values {
			if has(i, key) {
				n.order = append(n.order, key)
				n.Put(key, value, time.Hour)
			}
		}
		slices.Sort(n.order)
		random := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // an order, which is the same in each run
		random.Shuffle(len(n.order), func(a, b int) { n.order[a], n.order[b] = n.order[b], n.order[a] })
		nodes, all = append(nodes, driver.Node{Name: n.Name(), Driver: n}), append(all, n)
	}
	return nodes, all
}

// answer answers what is asked of no single key.
func (n *listedNode) answer(args []any) *driver.Reply {
	var reply driver.Reply
	switch args[0] {
	case "SCAN":
		if n.onScan != nil {
			n.onScan(n)
		}
		from, _ := strconv.Atoi(args[1].(string))
		count, _ := strconv.Atoi(args[5].(string))
		to := min(from+count, len(n.order))
		var names []driver.Reply
		for _, name := range n.order[from:to] {
			names = append(names, text(name))
		}
		reply = driver.Reply{Kind: driver.Array, Elems: []driver.Reply{text(strconv.Itoa(to % len(n.order))), {Kind: driver.Array, Elems: names}}}
	case "DBSIZE":
		reply = number(int64(len(n.order)))
	case "ACL":
		reply = text("")
	default:
		return nil
	}
	return &reply
}

func text(s string) driver.Reply  { return driver.Reply{Kind: driver.String, Str: s} }
func number(n int64) driver.Reply { return driver.Reply{Kind: driver.Integer, Int: n} }

func everywhere(int, string) bool { return true }

// someLocks are so many locks.
func someLocks(count int) map[string]string {
	values := make(map[string]string, count)
	for i := range count {
		values[fmt.Sprint("k", i)] = tokenOf("a")
	}
	return values
}

func TestANodeHasAsLongToAnswerAsTheNodeTimeoutSays(t *testing.T) {
	for timeout, want := range map[time.Duration]Mark{0: MarkUnknown, 3 * time.Second: MarkHolder} {
		synctest.Test(t, func(t *testing.T) {
			nodes, all := listedNodes(someLocks(1), everywhere)
			all[2].Delay = 2 * time.Second
			report, err := Status(t.Context(), nodes, StatusOptions{Settings: Settings{NodeTimeout: timeout}})
			if err != nil || len(report.Keys) != 1 || report.Keys[0].Votes[2].Mark != want {
				t.Errorf("with a node time-out of %v, a node that takes 2s: %+v, %v; want it %s", timeout, report.Keys, err, want)
			}
		})
	}
}

func TestAPageOfLocksCostsANodeAFewRoundTrips(t *testing.T) {
	const locks = 5000
	nodes, all := listedNodes(someLocks(locks), everywhere)
	report, err := Status(t.Context(), nodes, StatusOptions{Rate: 1e9})
	if err != nil || len(report.Keys) != locks {
		t.Fatalf("status = %d keys, %v; want %d", len(report.Keys), err, locks)
	}
	// A scan of 1,000 keys in one trip, 500 locks in another; pages are not full, because nodes
	// show one lock in different ones.
	for i, n := range all {
		if most := 6 * locks / perScan; n.Calls > most {
			t.Errorf("node %d was asked %d times for %d locks, want %d at most", i+1, n.Calls, locks, most)
		}
		if most := 5*locks + 2*n.Calls + 3; len(n.Log) > most {
			t.Errorf("node %d got %d commands for %d locks, want %d at most", i+1, len(n.Log), locks, most)
		}
	}
}

func TestKeysAreYieldedBeforeTheLastOneIsFound(t *testing.T) {
	nodes, all := listedNodes(someLocks(6*perScan), everywhere)
	for report, err := range StatusParts(t.Context(), nodes, StatusOptions{Rate: 1e9}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Keys) == 0 || len(report.Keys) > chunk {
			t.Errorf("the first part has %d keys, want up to %d", len(report.Keys), chunk)
		}
		break
	}
	for i, n := range all {
		if scans := n.Counted("SCAN"); scans > 2 { // the page, and one that is asked for
			t.Errorf("node %d was scanned %d times for the first page, and goes on when nobody looks any more", i+1, scans)
		}
	}
}

// Some are at one node, some at a quorum, some everywhere; of semaphores some slots are held. A
// name that a node shows twice is found once if it is remembered.
func TestEachLockIsFoundOnceHoweverManyAreRemembered(t *testing.T) {
	values := someLocks(1500)
	for i := range 150 {
		semaphore := fmt.Sprint("s", i)
		values[protocol.Beside(protocol.RolePermits, semaphore)] = "4"
		for slot := range 1 + i%4 {
			values[protocol.SlotKey(semaphore, slot)] = tokenOf("b")
		}
	}
	values["s7"] = tokenOf("c") // a lock that is called as a semaphore is
	has := func(node int, key string) bool {
		h := 0
		for _, c := range key {
			h = 31*h + int(c)
		}
		at := 1 + h%7 // nodes, as bits
		return strings.HasPrefix(key, "ql:permits") || at&(1<<node) != 0
	}
	want := make(map[string]int)
	for key := range values {
		if name, slots, ok := lockOf("", key); ok && slots == 0 {
			want[name] = 1
		} else if ok {
			want[name+" permits"] = 1
		}
	}
	for _, bound := range []int{0, 700, MaxListed} {
		nodes, all := listedNodes(values, has)
		if bound == MaxListed {
			for _, n := range all {
				n.order = append(n.order, slices.Clone(n.order[:500])...)
			}
		}
		got := make(map[string]int)
		v := newSurvey(nodes, StatusOptions{Rate: 1e9})
		v.seen = newSeen(bound)
		pages := make(chan []found)
		go func() {
			defer close(pages)
			if err := v.run(t.Context(), pages); err != nil {
				t.Errorf("with %d remembered: %v", bound, err)
			}
		}()
		for page := range pages {
			for _, k := range v.judgeAll(page) {
				name := k.Key
				if k.State == KeyPermits {
					name += " permits"
				}
				got[name]++
			}
		}
		wrong := 0
		for name := range want {
			if got[name] != 1 {
				wrong++
			}
		}
		if wrong > 0 || len(got) != len(want) {
			t.Errorf("with %d remembered %d of %d locks were not found once, and %d names were found; want each once", bound, wrong, len(want), len(got))
		}
		if len(v.seen.hashes) > bound {
			t.Errorf("%d were remembered, want %d at most", len(v.seen.hashes), bound)
		}
	}
}

// A renewal gives a lock back the vote that a node has lost, when the scan of that node is past its
// place.
func TestALockThatGetsBackAVoteMeanwhileIsFound(t *testing.T) {
	values := someLocks(3 * perScan)
	nodes, all := listedNodes(values, func(node int, key string) bool { return node > 0 || len(key) < 4 })
	all[1].onScan = func(n *listedNode) {
		if n.Counted("SCAN") == 2 {
			for key, value := range values {
				all[0].Plant(key, value, time.Hour)
			}
		}
	}
	report, err := Status(t.Context(), nodes, StatusOptions{Rate: 1e9})
	if err != nil || len(report.Keys) != len(values) {
		t.Errorf("status = %d keys, %v; want all %d", len(report.Keys), err, len(values))
	}
}

func TestANodeIsAskedForNoMoreThanTheRate(t *testing.T) {
	for _, locks := range []int{0, 4000} {
		synctest.Test(t, func(t *testing.T) {
			values := someLocks(locks)
			for i := range 4000 - locks {
				values[fmt.Sprint("ql:other", i)] = ""
			}
			nodes, _ := listedNodes(values, everywhere)
			begun := time.Now()
			if _, err := Status(t.Context(), nodes, StatusOptions{Rate: 1000}); err != nil {
				t.Fatal(err)
			}
			// The three show different locks at first, which are asked for, and few at the end.
			if took := time.Since(begun); took < 3*time.Second || took > 8*time.Second {
				t.Errorf("4,000 keys with %d locks at 1,000/s take %v, want between 3s and 8s", locks, took)
			}
		})
	}
}
