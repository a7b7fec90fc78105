package redlocktest

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
	"github.com/quorumlock/quorumlock/internal/scripts"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// A caller makes calls of scripts as internal/protocol does, about two keys.
type caller struct{ *rand.Rand }

var calledKeys, callers = []string{"a", "b"}, []string{"t1", "t2", "t3"}

func pick[T any](c caller, of ...T) T { return of[c.IntN(len(of))] }

// remembered is the record of the restart guard.
const remembered = "ql:memory"

// upTo2 are one or two of them, in any order.
func (c caller) upTo2(of []string) (some []string) {
	for _, i := range c.Perm(len(of))[:1+c.IntN(2)] {
		some = append(some, of[i])
	}
	return some
}

// each gives the keys a name or an argument each.
func each(keys []string, of func(key string) string) (all []string) {
	for _, key := range keys {
		all = append(all, of(key))
	}
	return all
}

func (c caller) token(string) string { return pick(c, callers...) }
func (c caller) ttl(string) string   { return strconv.Itoa(80 * (1 + c.IntN(37))) }
func lineOf(key string) string       { return protocol.LineOf(key).(string) }
func fencesOf(key string) string     { return protocol.FenceSet(key).(string) }

// grid divides the moments at which rests begin and end.
const grid = 16 * time.Millisecond

// rank is that of one who has waited for up to 20 seconds.
func (c caller) rank() string {
	since := time.Now().Add(-time.Duration(c.IntN(pick(c, 100, 2000, 20000))) * time.Millisecond)
	return strconv.FormatInt(pick(c, since, since.Truncate(grid), since.Truncate(8*grid)).UnixMicro(), 10)
}

// stands is how one of these stands in line: rank, ticket, and for how long that stays.
func (c caller) stands(tickets ...string) []string {
	rank := c.rank()
	at := pick(c, []string{"0", "0"}, []string{rank, "0"}, []string{rank, "1500"}, []string{rank, "8000"})
	return []string{at[0], pick(c, tickets...), at[1]}
}

// next is a call: its script in words, keys and arguments.
func (c caller) next() (what string, script *scripts.Script, keys, args []string) {
	key, token, two, number := pick(c, calledKeys...), c.token(""), c.upTo2(calledKeys), pick(c, "0", strconv.Itoa(1+c.IntN(4)))
	wakes := pick(c, nil, []string{protocol.WakeChannel}, []string{protocol.WakeChannel, "1"})
	shared, under, held := []string{key, protocol.Beside(protocol.RoleReaders, key)}, "0", []string(nil)
	if c.IntN(3) == 0 {
		under, held = "1", []string{lineOf(pick(c, calledKeys...))}
	}
	sets := func(keys ...string) []string {
		if number == "0" {
			return nil
		}
		return each(keys, fencesOf)
	}
	switch c.IntN(16) {
	case 0:
		return "hold", scripts.Hold, []string{key}, append([]string{token, c.ttl("")}, pick(c, nil, []string{c.token("")})...)
	case 1:
		return "extend", scripts.Extend, two, slices.Concat(each(two, c.token), each(two, c.ttl))
	case 2:
		return "release", scripts.Release, two, append(each(two, c.token), wakes...)
	case 3, 4:
		args = []string{token, c.ttl(""), strconv.Itoa(len(two)), number}
		if c.IntN(4) > 0 {
			tickets := [][]string{{"x0:a1", "x1:a2"}, {"s2:a5.1", "s3:a6.2"}}[len(two)-1]
			args = append(append(args, c.stands(tickets...)...), under, protocol.WakeChannel)
		}
		return "take", scripts.Take, slices.Concat(two, sets(two...), each(two, lineOf), held), args
	case 5:
		return "leave", scripts.Leave, []string{key}, []string{"", protocol.WakeChannel, token}
	case 6:
		ticket := pick(c, "x0:a1", "x1:a2", "r0:a3", "r0:a4", "s2:a5.1", "s3:a6.2")
		var next []string
		if len(two) == 1 && c.IntN(2) == 0 {
			next = []string{c.rank(), pick(c, "x0:a1", "x1:a2"), "1500"}
		}
		return "leave", scripts.Leave, append(two, each(two, lineOf)...), append([]string{ticket, protocol.WakeChannel, pick(c, "", token)}, next...)
	case 7, 11, 12:
		mode, tokens := pick(c, "join", "join", "stay", "stay", "turn", "back"), c.upTo2(callers)
		args = []string{c.ttl(""), mode, number}
		switch mode {
		case "join":
			args = append(append(args, c.stands("r0:a3", "r0:a4")...), under)
			return "share", scripts.Share, slices.Concat(shared, []string{lineOf(key)}, sets(key), held), append(args, tokens...)
		case "turn", "back":
			tokens = append(tokens, token)
		}
		return "share", scripts.Share, append(shared, sets(key)...), append(args, tokens...)
	case 8, 13:
		tokens := c.upTo2(callers)
		return "unshare", scripts.Unshare, shared, slices.Concat([]string{strconv.Itoa(len(tokens))}, tokens, wakes)
	case 9, 14:
		return "raise", scripts.Raise, shared, []string{token, c.token(""), c.ttl("")}
	case 10:
		return "remember", scripts.Remember, []string{remembered}, []string{pick(c, "8000 0:3", "8000 0:3", "9000 0:3"), "400000", pick(c, "900000", "2000000"), pick(c, "0", "1", "1")}
	default:
		args = []string{token, c.ttl(""), pick(c, "2", "2", "2", "3"), strconv.Itoa(len(two)), number}
		if c.IntN(3) > 0 {
			args = append(append(args, c.stands("s2:a5.1", "s3:a6.2")...), pick(c, "1", "2", "3"))
		}
		return "slot", scripts.Slot, slices.Concat(two, []string{"permits", lineOf("a")}, sets(two...), calledKeys), args
	}
}

// hears returns what arrives at channels, each announcement once: a script that finds dead tickets in a
// line tells those in front of them again.
func hears(t *testing.T, at driver.Subscriber, channels []string) func() []string {
	t.Helper()
	notices := make(chan driver.Notice, 1000)
	s, err := at.Subscribe(t.Context(), func(n driver.Notice) { notices <- n })
	must(t, err)
	t.Cleanup(func() { _ = s.Close() }) // is always nil
	must(t, s.Add(t.Context(), channels...))
	synctest.Wait()
	return func() (heard []string) {
		synctest.Wait()
		for len(notices) > 0 {
			n := <-notices
			rank, what, _ := strings.Cut(n.Payload, " ")
			if at, err := strconv.ParseFloat(rank, 64); err == nil { // servers write round ranks in two ways
				rank = fmt.Sprintf("%.0f", at)
			}
			heard = append(heard, fmt.Sprintf("%s %s on %q", rank, what, n.Channel))
		}
		if slices.Sort(heard); len(heard) > 90 {
			t.Errorf("there are %d announcements at once: %q", len(heard), heard)
		}
		return slices.Compact(heard)
	}
}

// reports is a reply, what is heard and what there is of the keys, in words; an error by its code.
func reports(reply driver.Reply, heard []string, token func(key string) (string, time.Duration)) string {
	if strings.Contains(reply.Str, "WRONGTYPE") { // a script may say where
		reply.Str = "WRONGTYPE"
	}
	what := fmt.Sprint(show(reply), heard)
	for _, key := range append([]string{"permits"}, calledKeys...) {
		if token, left := token(key); token != "" && token != fakenode.List {
			what += fmt.Sprintf(" %s: %s for %v", key, token, left)
		}
	}
	return what
}

// replicates gives both nodes one of two histories, and makes them masters or replicas.
func (c caller) replicates(node *Node, fake *fakenode.Node) {
	history, role := fakenode.History(strconv.Itoa(c.IntN(2))), pick(c, "master", "master", "slave")
	node.SetInfo("master_replid", history)
	node.SetInfo("role", role)
	fake.Change(func(f *fakenode.Node) { f.Info = "role:" + role + "\r\nmaster_replid:" + history + "\r\n" })
}

// happens changes what both nodes have, by no script.
func (c caller) happens(t *testing.T, node *Node, fake *fakenode.Node) {
	t.Helper()
	key := pick(c, calledKeys...)
	switch c.IntN(80) {
	case 0, 1: // another program's
		node.Del(key)
		ask(t, node, "RPUSH", key, "no string")
		ask(t, node, "PEXPIRE", key, "300")
		fake.Plant(key, fakenode.List, 300*time.Millisecond)
	case 2, 3, 4, 5:
		c.replicates(node, fake)
	case 6:
		node.Del(remembered)
		fake.Change(func(f *fakenode.Node) { clear(f.Memories) })
	case 7, 8, 15, 16: // a floor of counters
		floor := int64(c.IntN(7))
		ask(t, node, "ZADD", fencesOf(key), strconv.FormatInt(floor, 10), "")
		fake.Change(func(f *fakenode.Node) { f.SetFence(key, "", floor) })
	case 9, 10: // many stand in line, each for a time of his own
		line := lineOf(key)
		for i := range 20 {
			ticket, rank, stays := fmt.Sprintf(pick(c, "x0:c%d%s", "x1:c%d%s", "r0:c%d%s", "s2:c%d%s.1"), i, key), c.rank(), time.Duration(c.IntN(3000))*time.Millisecond
			since, _ := strconv.ParseInt(rank, 10, 64)
			ask(t, node, "ZADD", line, rank, ticket, strconv.FormatInt(time.Now().Add(stays).UnixMilli(), 10), "-"+ticket)
			fake.Change(func(f *fakenode.Node) { f.AddTicket(line, ticket, since, stays) })
		}
		ask(t, node, "PEXPIRE", line, "20000")
	case 17: // a ticket from before the clock was set back
		dead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
		ask(t, node, "ZADD", lineOf(key), c.rank(), "x0:dead", dead, "-x0:dead")
		ask(t, node, "PEXPIRE", lineOf(key), "20000")
	case 11, 12, 13, 14: // the key is gone
		node.Del(key)
		fake.Change(func(f *fakenode.Node) { delete(f.Keys, key) })
	}
	if c.IntN(3) == 0 {
		time.Sleep(pick(c, time.Duration(c.IntN(400)), 80, 400, 800) * time.Millisecond)
	}
	if c.IntN(3) == 0 {
		time.Sleep(time.Until(time.Now().Truncate(grid).Add(grid)))
	}
}

func TestTheFakeNodeAnswersAsTheScriptsDo(t *testing.T) {
	for seed := range uint64(80) {
		alone(t, func(t *testing.T, node *Node) {
			c, fake, client := caller{rand.New(rand.NewPCG(seed, 1))}, fakenode.New("node-1"), newClient(reach(node)) //nolint:gosec // it has to be repeatable
			var channels, log []string
			for _, key := range append([]string{""}, calledKeys...) {
				for _, who := range []string{"", " a1", " a2", " a3", " a4", " a5", " a6"} {
					if c.IntN(3) > 0 {
						channels = append(channels, protocol.WakeChannel+key+who)
					}
				}
			}
			atNode, atFake := hears(t, client, channels), hears(t, fake, channels)
			if others := channels[:c.IntN(len(channels))]; len(others) > 0 {
				hears(t, client, others)
				hears(t, fake, others)
			}
			c.replicates(node, fake)
			for range 60 {
				c.happens(t, node, fake)
				what, script, keys, args := c.next()
				call := slices.Concat([]string{"EVAL", script.Source, strconv.Itoa(len(keys))}, keys, args)
				replies, err := fake.Do(t.Context(), []driver.Command{command(call...)})
				must(t, err)
				want := reports(ask(t, node, call...), atNode(), func(key string) (string, time.Duration) { token, _ := node.Get(key); return token, node.TTL(key) })
				got := reports(replies[0], atFake(), fake.Token)
				if what == "remember" {
					look := []string{"HMGET", keys[0], "id", "for", "age", "last"}
					replies, err = fake.Do(t.Context(), []driver.Command{command(look...)})
					must(t, err)
					want, got = want+reports(ask(t, node, look...), nil, fake.Token), got+reports(replies[0], nil, fake.Token)
				}
				if log = append(log, fmt.Sprint(time.Now().UnixMilli(), " ", what, keys, args, " = ", want)); got != want {
					t.Fatalf("seed %d: after\n%s\nthe fake node has %s", seed, strings.Join(log, "\n"), got)
				}
			}
			time.Sleep(time.Minute)
			for _, key := range node.Keys() {
				if key != remembered && key != fencesOf("a") && key != fencesOf("b") {
					t.Errorf("seed %d: after\n%s\nthere is %q, a minute later", seed, strings.Join(log, "\n"), key)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}
