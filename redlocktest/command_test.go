package redlocktest

import (
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

const extend = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`

// answers are what Redis 7.0 says, in this order, on one connection.
var answers = []struct {
	send []string
	want string
}{
	{[]string{"SET", "key", "a", "NX", "GET", "PX", "10000"}, "nil"},
	{[]string{"SET", "key", "b", "NX", "GET", "PX", "90000"}, `"a"`},
	{[]string{"GET", "key"}, `"a"`},
	{[]string{"SET", "key", "b", "NX", "PX", "90000"}, "nil"},
	{[]string{"EVAL", "return redis.call('PTTL', KEYS[1]) <= 10000", "1", "key"}, "1"},
	{[]string{"SET", "key", "a", "PX", "0"}, "-ERR invalid expire time in"},

	{[]string{"EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"}, "-NOSCRIPT No matching script. Please use EVAL."},
	{[]string{"SCRIPT", "LOAD", "return ARGV[1]"}, `"098e0f0d1448c0a81dafe820f66d460eb09263da"`},
	{[]string{"EVALSHA", "098e0f0d1448c0a81dafe820f66d460eb09263da", "0", "\x00\xff\r\n"}, `"\x00\xff\r\n"`},
	{[]string{"EVAL", extend, "1", "key", "b", "20000"}, "-1"},
	{[]string{"EVAL", extend, "1", "key", "a", "20000"}, "1"},
	{[]string{"EVAL", extend, "1", "key", "a", "5000"}, "0"},
	{[]string{"EVAL", "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])", "1", "key", "c", "30000"}, `"OK"`},
	{[]string{"EVAL", "return redis.call('SET', KEYS[1], ARGV[1], 'PX', tonumber(ARGV[2]))", "1", "key", "c", "30000"}, `"OK"`},
	{[]string{"EVAL", "return redis.call('SET', KEYS[1], 'd', 'NX')", "1", "key"}, "nil"},
	{[]string{"EVAL", "return redis.pcall('PUBLISH', 'channel', '1')", "0"}, "0"},
	{[]string{"EVAL", "return #redis.call('TIME')", "0"}, "2"},
	{[]string{"EVAL", "return {1, 'two', {3}, false}", "0"}, `[1 "two" [3] nil]`},
	{[]string{"EVAL", "return redis.error_reply('NOPE not now')", "0"}, "-NOPE not now"},

	{[]string{"ZADD", "fence", "GT", "CH", "9007199254740990", "f"}, "1"},
	{[]string{"ZADD", "fence", "GT", "CH", "9007199254740990", "f"}, "0"},
	{[]string{"ZADD", "fence", "GT", "CH", "9007199254740989", "f"}, "0"},
	{[]string{"ZADD", "fence", "GT", "CH", "9007199254740991", "f"}, "1"},
	{[]string{"ZSCORE", "fence", "f"}, `"9007199254740991"`},
	{[]string{"PEXPIRE", "fence", "86400000", "GT"}, "0"}, // none is endless
	{[]string{"PEXPIRE", "fence", "86400000", "NX"}, "1"},
	{[]string{"PEXPIRE", "fence", "90000000", "NX"}, "0"},
	{[]string{"PEXPIRE", "fence", "3600000", "GT"}, "0"},
	{[]string{"PEXPIRE", "fence", "90000000", "GT"}, "1"},
	{[]string{"ZADD", "fence", "GT", "9007199254740988", ""}, "1"},
	{[]string{"ZADD", "fence", "GT", "9007199254740987", ""}, "0"},
	{[]string{"ZSCORE", "fence", ""}, `"9007199254740988"`},
	{[]string{"ZRANGE", "fence", "1", "1", "WITHSCORES"}, `["f" "9007199254740991"]`},
	{[]string{"ZRANGE", "fence", "2", "2", "WITHSCORES"}, "[]"},
	{[]string{"ZREMRANGEBYSCORE", "fence", "-inf", "(9007199254740988"}, "0"},
	{[]string{"ZREMRANGEBYSCORE", "fence", "-inf", "(9007199254740989"}, "1"},
	{[]string{"ZSCORE", "fence", ""}, "nil"},
	{[]string{"PEXPIRE", "nothing", "86400000"}, "0"},
	{[]string{"PTTL", "nothing"}, "-2"},
	{[]string{"SET", "forever", "x"}, `"OK"`},
	{[]string{"PTTL", "forever"}, "-1"},

	{[]string{"SET", "fence", "x", "NX", "PX", "1000"}, "nil"},
	{[]string{"SET", "fence", "x", "NX", "GET", "PX", "1000"}, "-WRONGTYPE Operation against a key holding the wrong kind of value"},
	{[]string{"GET", "fence"}, "-WRONGTYPE Operation against a key holding the wrong kind of value"},
	{[]string{"WAIT", "0", "0"}, "0"},
	{[]string{"DEL", "key", "fence", "forever"}, "3"},
	{[]string{"DELIFEQ", "key", "a"}, "-ERR unknown command"},
	{[]string{"CLUSTER", "SHARDS"}, "-ERR This instance has cluster support disabled"},
	{[]string{"CLUSTER", "SLOTS"}, "-ERR This instance has cluster support disabled"},
}

func TestAnswersAreThoseOfRedis(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		batch := make([]driver.Command, len(answers))
		for i, answer := range answers {
			batch[i] = command(answer.send...)
		}
		replies, err := newClient(reach(nodes[0])).Do(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for i, answer := range answers {
			got := show(replies[i])
			if len(got) > len(answer.want) && replies[i].Kind == driver.Failure {
				got = got[:len(answer.want)] // versions differ in what follows
			}
			if got != answer.want {
				t.Errorf("%q = %s, want %s", answer.send, show(replies[i]), answer.want)
			}
		}
	})
}

func TestAScriptsErrorKeepsItsCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		ask(t, node, "ZADD", "key", "1", "member")
		want := "-WRONGTYPE Operation against a key holding the wrong kind of value"
		if got := show(ask(t, node, "EVAL", "return redis.call('GET', KEYS[1])", "1", "key")); got != want {
			t.Errorf("a script's GET of a sorted set = %s, want %s", got, want)
		}
	})
}

func TestTimeIsTheBubbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		want := strconv.FormatInt(time.Now().Unix(), 10)
		if got := ask(t, node, "TIME").Elems[0].Str; got != want {
			t.Errorf("TIME = %s, want the bubble's %s", got, want)
		}
	})
}

func TestPublishReachesASubscriber(t *testing.T) {
	kinds(t, func(t *testing.T, nodes Nodes) {
		conn, err := newClient(reach(nodes[0])).take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // is being thrown away
		got, err := conn.exchange([]driver.Command{command("SUBSCRIBE", "channel")})
		if err != nil || show(got[0]) != `["subscribe" "channel" 1]` {
			t.Fatalf("SUBSCRIBE = %v, %v, want a confirmation", got, err)
		}
		if got := ask(t, nodes[0], "EVAL", "return redis.pcall('PUBLISH', KEYS[1], '')", "1", "channel"); got.Int != 1 {
			t.Errorf("PUBLISH from a script = %s, want 1 listener", show(got))
		}
		message, err := conn.replies.Reply()
		if err != nil || show(message) != `["message" "channel" ""]` {
			t.Errorf("the subscriber got %s, %v, want the message", show(message), err)
		}
	})
}

func TestHelloSwitchesToRESP3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		conn, err := node.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })                                   // is being thrown away
		_, _ = resp.WriteCommands(conn, []driver.Command{command("HELLO", "3")}) // shows in what is read
		first := make([]byte, 1)
		if _, err := conn.Read(first); err != nil || first[0] != '%' {
			t.Errorf("HELLO 3 begins with %q, %v, want a map", first, err)
		}
	})
}

func TestCountCountsWhatClientsSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		ask(t, node, "set", "key", "a")
		ask(t, node, "EVAL", "redis.call('SET', KEYS[1], 'b') return redis.call('GET', KEYS[1])", "1", "key")
		node.Fail("READONLY no")
		ask(t, node, "SET", "key", "c")
		node.Get("key")
		want := map[string]int{"SET": 2, "EVAL": 1}
		if got := node.Counts(); !maps.Equal(got, want) || node.Count("set") != 2 {
			t.Errorf("Counts = %v, Count = %d, want %v", got, node.Count("set"), want)
		}
	})
}

func TestBlockingCommandsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := StartInBubble(t, 1)[0]
		for _, name := range blocking {
			if got := show(ask(t, node, name, "key", "0")); got != "-ERR "+name+" is not served by an embedded node" {
				t.Errorf("%s = %s, want a refusal", name, got)
			}
		}
	})
}
