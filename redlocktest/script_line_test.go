package redlocktest

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
	"github.com/quorumlock/quorumlock/redlock"
)

// A queuer asks a node for keys.
type queuer struct {
	token  string
	keys   []string // none: the key "k"
	ticket string   // "": it leaves none
	rank   int64    // microseconds from the beginning on; 0: behind all
	under  bool
	shy    bool
	held   []string // keys
	number string   // for the keys' counters, in the sets ql:fences:{0}, ql:fences:{1}, …; "": none
}

// began is the first rank of a test, so long after the bubble's beginning that no ticket is from
// before it.
func began() int64 { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() }

func (q queuer) lines() (keys, lines []string) {
	keys = q.keys
	if keys == nil {
		keys = []string{"k"}
	}
	for _, key := range keys {
		lines = append(lines, "ql:line:{"+key+"}")
	}
	return keys, lines
}

// take tries for the keys, and leaves the ticket for 1.5 s.
func take(t *testing.T, node *Node, q queuer) driver.Reply {
	t.Helper()
	all, lines := q.lines()
	count, number, rank, stays, under, ticket := strconv.Itoa(len(all)), "0", "0", "0", "0", "x0:"
	if q.number != "" {
		number = q.number
		for i := range q.keys {
			all = append(all, fmt.Sprintf("ql:fences:{%d}", i))
		}
	}
	if q.ticket != "" {
		ticket, stays = q.ticket, "1500"
	}
	if q.rank != 0 {
		rank = strconv.FormatInt(began()+q.rank, 10)
	}
	if q.under {
		under = "1"
	}
	shy := "0"
	if q.shy {
		shy = "1"
	}
	all = append(all, lines...)
	for _, key := range q.held {
		all = append(all, "ql:line:{"+key+"}")
	}
	call := append([]string{"EVAL", scripts.Take.Source, strconv.Itoa(len(all))}, all...)
	return ask(t, node, append(call, q.token, "10000", count, number, rank, ticket, stays, under, "ql:free:", shy)...)
}

// leave takes a ticket out of the lines of the keys. With a token it releases the key before, and says whether that
// had it. A next one stands there from then on.
func leave(t *testing.T, node *Node, q queuer, next ...queuer) (said int64) {
	t.Helper()
	keys, lines := q.lines()
	call := append([]string{"EVAL", scripts.Leave.Source, strconv.Itoa(2 * len(keys))}, append(keys, lines...)...)
	call = append(call, q.ticket, "ql:free:", q.token)
	for _, n := range next {
		call = append(call, strconv.FormatInt(began()+n.rank, 10), n.ticket, "1500")
	}
	reply := ask(t, node, call...)
	if q.token == "" && reply.Int != 1 {
		t.Errorf("the script returned %s, want 1", show(reply))
	}
	return reply.Int
}

// returns fails the test unless the script has returned this number, or 2 more, if it has left a
// ticket.
func returns(t *testing.T, reply driver.Reply, want int64) {
	t.Helper()
	if reply.Int > 2 {
		reply.Int -= 2
	}
	if reply.Kind != driver.Integer || reply.Int != want {
		t.Errorf("the script returned %s, want %d", show(reply), want)
	}
}

// refuses fails the test unless the reply says which key is in the way, who has it, and whether no
// ticket is before. It returns for how long it says that.
func refuses(t *testing.T, reply driver.Reply, place int64, holder string, first bool) (left time.Duration) {
	t.Helper()
	if len(reply.Elems) != 5 || reply.Elems[0].Int != place || reply.Elems[1].Str != holder || reply.Elems[2].Int <= 0 || reply.Elems[3].Int <= 0 || (reply.Elems[4].Int&1 == 1) != first {
		t.Errorf("the script returned %s, want that key %d is held by %q, for how long, the time, and whether one is first: %v", show(reply), place, holder, first)
		return 0
	}
	return time.Duration(reply.Elems[2].Int) * time.Millisecond
}

// inLine fails the test unless these tickets stand in the line of "k".
func inLine(t *testing.T, node *Node, tickets ...string) {
	t.Helper()
	reply := ask(t, node, "ZRANGEBYSCORE", "ql:line:{k}", "1e14", "+inf")
	if len(reply.Elems) != len(tickets) {
		t.Errorf("in line are %s, want %q", show(reply), tickets)
		return
	}
	for i, ticket := range tickets {
		if reply.Elems[i].Str != ticket {
			t.Errorf("in line are %s, want %q", show(reply), tickets)
		}
	}
}

// free deletes keys, which others had.
func free(t *testing.T, node *Node, keys ...string) {
	t.Helper()
	ask(t, node, append([]string{"DEL"}, keys...)...)
}

func TestTheTakeScriptGivesAFreeKeyToTheFirstInLine(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		early, late := queuer{token: "e", ticket: "x0:ea", rank: 10}, queuer{token: "l", ticket: "x0:1a", rank: 20}
		newcomer := queuer{token: "new"}
		returns(t, take(t, node, newcomer), 1)
		has(t, node, "k", "new", 10*time.Second)
		refuses(t, take(t, node, late), 1, "new", true)
		refuses(t, take(t, node, early), 1, "new", true)
		refuses(t, take(t, node, late), 1, "new", false)
		inLine(t, node, "x0:ea", "x0:1a")
		free(t, node, "k")
		refuses(t, take(t, node, newcomer), 1, "ql:line x0:ea", false)
		refuses(t, take(t, node, late), 1, "ql:line x0:ea", false)
		returns(t, take(t, node, early), 2)
		inLine(t, node, "x0:ea", "x0:1a") // it may have to give the key back
		returns(t, take(t, node, early), 1)
		if said := leave(t, node, early); said != 1 {
			t.Errorf("the leave script returned %d, want 1", said)
		}
		inLine(t, node, "x0:1a")
		free(t, node, "k")
		returns(t, take(t, node, queuer{token: "f", ticket: "x0:fa", rank: 5}), 2)
		inLine(t, node, "x0:fa", "x0:1a")
	})
}

func TestWhoIsShyStandsWhereOthersStandOrListen(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		returns(t, take(t, node, queuer{token: "h"}), 1)
		shy := queuer{ticket: "x0:aa", rank: 20, shy: true}
		tries := func(left int64, tickets ...string) {
			t.Helper()
			reply := take(t, node, shy)
			if refuses(t, reply, 1, "h", true); reply.Elems[4].Int != left {
				t.Errorf("the script says %d of whether it is first and has left a ticket, want %d", reply.Elems[4].Int, left)
			}
			inLine(t, node, tickets...)
		}
		tries(1)
		listen(t, node, "ql:free:k") // itself
		tries(1)
		listen(t, node, "ql:free:k")
		tries(3, "x0:aa")
		leave(t, node, shy)
		ask(t, node, "CLIENT", "KILL", "TYPE", "pubsub")
		take(t, node, queuer{ticket: "x0:bb", rank: 30})
		tries(3, "x0:aa", "x0:bb")
		free(t, node, "k")
		if reply := take(t, node, shy); reply.Int != 4 {
			t.Errorf("to who gets the key beside others, and leaves a ticket, the script returns %s, want 4", show(reply))
		}
	})
}

func TestTheTakeScriptOrdersEqualRanksByTheirTickets(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		returns(t, take(t, node, queuer{token: "new"}), 1)
		refuses(t, take(t, node, queuer{ticket: "x0:b", rank: 10}), 1, "new", true)
		refuses(t, take(t, node, queuer{ticket: "x0:c", rank: 10}), 1, "new", false)
		refuses(t, take(t, node, queuer{ticket: "x0:a", rank: 10}), 1, "new", true)
	})
}

func TestATicketThatIsNotRenewedEnds(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		returns(t, take(t, node, queuer{token: "new"}), 1)
		for i := range 20 { // more than the script reads at a time
			refuses(t, take(t, node, queuer{ticket: fmt.Sprintf("x0:dead%02d", i), rank: int64(1 + i)}), 1, "new", i == 0)
		}
		free(t, node, "k")
		time.Sleep(time.Second)
		late := queuer{token: "l", rank: 100}
		refuses(t, take(t, node, late), 1, "ql:line x0:dead00", false)
		time.Sleep(501 * time.Millisecond)
		returns(t, take(t, node, late), 1)
		inLine(t, node)
		if keys := node.Keys(); len(keys) != 1 {
			t.Errorf("of an empty line is left: %q", keys)
		}
	})
}

func TestATicketFromBeforeAClockWasSetBackHasEnded(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		ask(t, node, "ZADD", "ql:line:{k}", strconv.FormatInt(began()+1, 10), "x0:dead")
		ask(t, node, "ZADD", "ql:line:{k}", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), "-x0:dead")
		returns(t, take(t, node, queuer{token: "l", rank: 20}), 1)
	})
}

func TestTheTakeScriptTakesAllKeysOrNone(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		three := queuer{token: "ours", keys: []string{"a", "b", "c"}}
		node.Take("c", time.Minute)
		theirs, _ := node.Get("c")
		refuses(t, take(t, node, three), 3, theirs, true)
		if got := node.Keys(); len(got) != 1 {
			t.Errorf("a refused script has left %q", got)
		}
		free(t, node, "c")
		for _, tt := range []struct{ ask, want time.Duration }{
			{10 * time.Second, 10 * time.Second},
			{20 * time.Second, 20 * time.Second},
			{5 * time.Second, 20 * time.Second},
		} { // as an extension, which knows no line
			returns(t, ask(t, node, "EVAL", scripts.Take.Source, "3", "a", "b", "c", "ours", strconv.FormatInt(tt.ask.Milliseconds(), 10), "3", "0"), 1)
			for _, key := range three.keys {
				has(t, node, key, "ours", tt.want)
			}
		}
		free(t, node, "b")
		ask(t, node, "RPUSH", "b", "a list")
		if got := take(t, node, three); len(got.Elems) != 1 || got.Elems[0].Int != 2 {
			t.Errorf("of a key that is a list the script returned %s, want its place alone", show(got))
		}
	})
}

func TestTheTakeScriptCounts(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		ask(t, node, "ZADD", "ql:fences:{1}", "7", "b")
		for _, tt := range []struct {
			number, floor string
			want          int64
		}{{"7", "1", -1}, {"8", "1", 1}, {"8", "1", -1}, {"9", "9", -1}, {"10", "9", 1}} {
			ask(t, node, "ZADD", "ql:fences:{0}", tt.floor, "")
			if got := take(t, node, queuer{token: "ours", keys: []string{"a", "b"}, number: tt.number}); got.Kind != driver.Integer || got.Int != tt.want {
				t.Errorf("for the number %s the script returned %s, want %d", tt.number, show(got), tt.want)
			}
		}
	})
}

func TestATicketForSeveralKeysKeepsOthersOffEach(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		set := queuer{token: "set", keys: []string{"a", "b"}, ticket: "s2:5e.1", rank: 10}
		node.Take("b", time.Minute)
		theirs, _ := node.Get("b")
		refuses(t, take(t, node, set), 2, theirs, true)
		for _, later := range []queuer{{}, {rank: 20}, {keys: []string{"a", "c"}, rank: 20, ticket: "s2:5e.2"}} {
			later.token = "later"
			if later.keys == nil {
				later.keys = []string{"a"}
			}
			refuses(t, take(t, node, later), 1, "ql:line s2:5e.1", false)
		}
		returns(t, take(t, node, queuer{token: "before", keys: []string{"a"}, rank: 5}), 2)
		free(t, node, "a", "b")
		returns(t, take(t, node, set), 2) // the later one stands behind in the line of a
		leave(t, node, set)
		for _, line := range []string{"ql:line:{a}", "ql:line:{b}"} {
			if ask(t, node, "ZSCORE", line, "s2:5e.1").Kind != driver.Nil {
				t.Errorf("who has left stands in %s", line)
			}
		}
	})
}

// N, who has b, asks for a: T, which waits for a and b, waits for N; and A waits behind T for a.
func TestNobodyWaitsBehindOneWhoWaitsForHim(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Take("b", time.Minute)
		theirs, _ := node.Get("b")
		refuses(t, take(t, node, queuer{keys: []string{"a", "b"}, ticket: "s2:7e.1", rank: 10}), 2, theirs, true)
		refuses(t, take(t, node, queuer{keys: []string{"a"}, ticket: "x0:aa", rank: 20}), 1, "ql:line s2:7e.1", false)
		asks := queuer{token: "n", keys: []string{"a"}, rank: 30, under: true}
		refuses(t, take(t, node, asks), 1, "ql:line s2:7e.1", false)
		asks.held = []string{"c"}
		refuses(t, take(t, node, asks), 1, "ql:line s2:7e.1", false)
		asks.held = []string{"c", "b"}
		returns(t, take(t, node, asks), 2)
		free(t, node, "a")
		asks.rank = 0 // a newcomer, likewise
		returns(t, take(t, node, asks), 2)
		free(t, node, "a")
		refuses(t, take(t, node, queuer{keys: []string{"b"}, ticket: "x0:ab", rank: 5}), 1, theirs, true)
		refuses(t, take(t, node, queuer{token: "n", keys: []string{"b"}, rank: 7, held: []string{"c"}}), 1, theirs, false)
	})
}

// A ticket for one key is in the way of the holder of another, also if it stands in both lines:
// these are two waits.
func TestOnlyATicketForSeveralKeysWaitsForWhatItsLinesHold(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		for _, key := range []string{"a", "b"} {
			node.Take(key, time.Minute)
			theirs, _ := node.Get(key)
			refuses(t, take(t, node, queuer{keys: []string{key}, ticket: "x0:aa", rank: 10}), 1, theirs, true)
		}
		free(t, node, "a")
		refuses(t, take(t, node, queuer{keys: []string{"a"}, rank: 20, held: []string{"b"}}), 1, "ql:line x0:aa", false)
	})
}

// The ticket of a set rests in the last third of each period of at least 48 ms, from an age of
// eight of them on.
func TestATicketForSeveralKeysRestsNowAndThen(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Take("b", time.Minute)
		theirs, _ := node.Get("b")
		start := time.Now()
		set := queuer{keys: []string{"a", "b"}, ticket: "s2:7e.1", rank: 1}
		at := func(moment time.Duration) {
			for now := time.Since(start); now < moment; now = time.Since(start) {
				time.Sleep(min(time.Second, moment-now))
				refuses(t, take(t, node, set), 2, theirs, true)
			}
		}
		try := func(rank time.Duration) driver.Reply {
			return take(t, node, queuer{token: "m", keys: []string{"a"}, rank: max(2, rank.Microseconds())})
		}
		at(300 * time.Millisecond)
		if soon := refuses(t, try(0), 1, "ql:line s2:7e.1", false); soon < 84*time.Millisecond || soon > 85*time.Millisecond {
			t.Errorf("of a ticket of 300 ms that does not rest the script returns %v, want the 84 ms to 384 ms", soon)
		}
		at(328 * time.Millisecond) // an older one would rest now
		if soon := refuses(t, try(0), 1, "ql:line s2:7e.1", false); soon != 57*time.Millisecond {
			t.Errorf("of a ticket of 328 ms the script returns %v, want the 57 ms to 384 ms", soon)
		}
		for _, rest := range []struct{ from, to time.Duration }{
			{416 * time.Millisecond, 432 * time.Millisecond}, // from when it is 768 ms old on they are longer
			{832 * time.Millisecond, 864 * time.Millisecond},
			{1664 * time.Millisecond, 1728 * time.Millisecond},
			{10496 * time.Millisecond, 10752 * time.Millisecond},
		} {
			at(rest.from - 10*time.Millisecond)
			if soon := refuses(t, try(0), 1, "ql:line s2:7e.1", false); soon != 10*time.Millisecond {
				t.Errorf("10 ms before it rests the script returns %v", soon)
			}
			at(rest.from)
			node.Take("a", time.Minute)
			others, _ := node.Get("a")
			refuses(t, try(rest.from-time.Microsecond), 1, others, false) // it is not first, though it may pass
			free(t, node, "a")
			returns(t, try(rest.from-time.Microsecond), 2)
			free(t, node, "a")
			refuses(t, try(rest.from), 1, "ql:line s2:7e.1", false)                             // a wait that began in the rest
			refuses(t, take(t, node, queuer{keys: []string{"a"}}), 1, "ql:line s2:7e.1", false) // a newcomer
			at(rest.to - time.Millisecond)
			returns(t, try(rest.from-time.Microsecond), 2)
			free(t, node, "a")
			at(rest.to)
			refuses(t, try(rest.from-time.Microsecond), 1, "ql:line s2:7e.1", false)
		}
	})
}

func TestATicketForOneKeyRestsForReadersUnderLocksAlone(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		node.Take("k", time.Minute)
		theirs, _ := node.Get("k")
		time.Sleep(706 * time.Millisecond)
		for _, ticket := range []string{"x0:aa", "x60:aa"} { // an urgent one has waited as long
			rank := int64(1)
			if ticket == "x60:aa" {
				rank -= 60_000_000
			}
			refuses(t, take(t, node, queuer{ticket: ticket, rank: rank}), 1, theirs, true)
			free(t, node, "k")
			for _, tt := range []struct {
				reads string
				under bool
				want  int64
			}{{"x0:", true, 0}, {"r0:", false, 0}, {"r0:", true, 2}} {
				q := queuer{token: "r", ticket: tt.reads + "bb", rank: 2, under: tt.under}
				if reply := take(t, node, q); (reply.Kind == driver.Integer) != (tt.want != 0) {
					t.Errorf("beside %s a try with %q, under locks %v, got %s", ticket, q.ticket, tt.under, show(reply))
				}
				leave(t, node, q)
			}
			free(t, node, "k")
			leave(t, node, queuer{ticket: ticket})
			node.Take("k", time.Minute)
			theirs, _ = node.Get("k")
		}
	})
}

func TestTheLeaveScriptTellsWhoIsFirst(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		_, notices := listen(t, node, "ql:free:k", "ql:free:k ea", "ql:free:k 1a")
		says := func(rank int64, rest string) string { return strconv.FormatInt(began()+rank, 10) + rest }
		early, late, none := queuer{ticket: "x0:ea", rank: 10}, queuer{ticket: "x0:1a", rank: 20}, queuer{}
		returns(t, take(t, node, queuer{token: "h"}), 1)
		take(t, node, late)
		take(t, node, early)
		expect(t, notices, message("ql:free:k 1a", says(20, " behind")))
		take(t, node, early)
		take(t, node, late)
		leave(t, node, none)
		expect(t, notices, message("ql:free:k ea", says(10, "")))
		leave(t, node, early)
		expect(t, notices, message("ql:free:k 1a", says(20, "")))
		leave(t, node, early, queuer{ticket: "x7:ea", rank: 5}) // the next waiter of the same process
		expect(t, notices, message("ql:free:k ea", says(5, "")))
		inLine(t, node, "x7:ea", "x0:1a")
		if said := leave(t, node, queuer{token: "another"}); said != 0 {
			t.Errorf("a release in line of a token that is not there returned %d", said)
		}
		expect(t, notices, message("ql:free:k ea", says(5, "")))
		if said := leave(t, node, queuer{token: "h"}); said != 1 { // one listens to the key, and two stand in line
			t.Errorf("a release in line returned %d", said)
		}
		expect(t, notices, message("ql:free:k ea", says(5, " free")))
		refuses(t, take(t, node, late), 1, "ql:line x7:ea", false) // it may not have heard that
		expect(t, notices, message("ql:free:k ea", says(5, " free")))
		time.Sleep(1600 * time.Millisecond)
		leave(t, node, none)
		expect(t, notices, message("ql:free:k", ""))
		synctest.Wait()
		if len(notices) > 0 {
			t.Errorf("received %v as well", <-notices)
		}
	})
}

func TestTheLeaveScriptTellsAllReadersAtTheFront(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		_, notices := listen(t, node, "ql:free:k aa", "ql:free:k bb", "ql:free:k cc", "ql:free:k dd")
		returns(t, take(t, node, queuer{token: "h"}), 1)
		for i, ticket := range []string{"r0:aa", "r0:bb", "x0:cc", "r0:dd"} {
			take(t, node, queuer{ticket: ticket, rank: int64(10 + i)})
		}
		both := func() {
			t.Helper()
			expect(t, notices, message("ql:free:k aa", strconv.FormatInt(began()+10, 10)+" free"))
			expect(t, notices, message("ql:free:k bb", strconv.FormatInt(began()+11, 10)+" free"))
		}
		leave(t, node, queuer{token: "h"})
		both()
		share(t, node, "10000", "stay", "another reader")
		leave(t, node, queuer{ticket: "x0:ee"})
		both()
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
		must(t, err)
		defer func() { _ = locker.Close() }()
		if _, err := locker.Acquire(t.Context(), "k", redlock.WithMaxWait(time.Second)); !errors.Is(err, redlock.ErrTaken) {
			t.Errorf("Acquire = %v, want ErrTaken", err)
		}
		if _, err := locker.AcquireAll(t.Context(), []string{"j", "k"}, redlock.WithMaxWait(time.Second)); !errors.Is(err, redlock.ErrTaken) {
			t.Errorf("AcquireAll = %v, want ErrTaken", err)
		}
		synctest.Wait()
		for _, node := range nodes {
			if keys := node.Keys(); len(keys) != 1 {
				t.Errorf("who gave up has left %q", keys)
			}
		}
	})
}
