package redlocktest

import (
	"cmp"
	"errors"
	"slices"
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
	under  string   // "1": under locks
}

// began is the first rank of a test, so long after the bubble's beginning that no ticket is from
// before it.
func began() int64 { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() }

// lined are its keys, and their lines.
func (q queuer) lined() (all []string) {
	if q.keys == nil {
		q.keys = []string{"k"}
	}
	return append(slices.Clone(q.keys), each(q.keys, lineOf)...)
}

// take tries for the keys, and leaves the ticket for 1.5 s.
func take(t *testing.T, node *Node, q queuer) driver.Reply {
	t.Helper()
	all, rank, stays := q.lined(), "0", "0"
	if q.ticket != "" {
		stays = "1500"
	}
	if q.rank != 0 {
		rank = strconv.FormatInt(began()+q.rank, 10)
	}
	call := append([]string{"EVAL", scripts.Take.Source, strconv.Itoa(len(all))}, all...)
	return ask(t, node, append(call, q.token, "10000", strconv.Itoa(len(all)/2), "0", rank, cmp.Or(q.ticket, "x0:"), stays, cmp.Or(q.under, "0"), "ql:free:", "0")...)
}

// leave takes a ticket out of the lines of the keys.
func leave(t *testing.T, node *Node, q queuer) {
	t.Helper()
	all := q.lined()
	run(t, node, scripts.Leave, len(all), append(all, q.ticket, "ql:free:", "")...)
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

// free deletes keys, which others had.
func free(t *testing.T, node *Node, keys ...string) {
	t.Helper()
	ask(t, node, append([]string{"DEL"}, keys...)...)
}

func TestTheTakeScriptOrdersEqualRanksByTheirTickets(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		returns(t, take(t, node, queuer{token: "new"}), 1)
		refuses(t, take(t, node, queuer{ticket: "x0:b", rank: 10}), 1, "new", true)
		refuses(t, take(t, node, queuer{ticket: "x0:c", rank: 10}), 1, "new", false)
		refuses(t, take(t, node, queuer{ticket: "x0:a", rank: 10}), 1, "new", true)
	})
}

func TestATicketFromBeforeAClockWasSetBackHasEnded(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		ask(t, node, "ZADD", "ql:line:{k}", strconv.FormatInt(began()+1, 10), "x0:dead")
		ask(t, node, "ZADD", "ql:line:{k}", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), "-x0:dead")
		returns(t, take(t, node, queuer{token: "l", rank: 20}), 1)
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
				reads, under string
				passes       bool
			}{{"x0:", "1", false}, {"r0:", "0", false}, {"r0:", "1", true}} {
				q := queuer{token: "r", ticket: tt.reads + "bb", rank: 2, under: tt.under}
				if reply := take(t, node, q); (reply.Kind == driver.Integer) != tt.passes {
					t.Errorf("beside %s a try with %q, under locks %s, got %s", ticket, q.ticket, tt.under, show(reply))
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
