package redlocktest

import (
	"maps"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

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
	{[]string{"EVAL", "return redis.call('GET', KEYS[1])", "1", "fence"}, "-WRONGTYPE Operation against a key holding the wrong kind of value"},
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
		must(t, err)
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

func TestHelloSwitchesToRESP3(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		conn, err := node.Dial(t.Context())
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })                                   // is being thrown away
		_, _ = resp.WriteCommands(conn, []driver.Command{command("HELLO", "3")}) // shows in what is read
		first := make([]byte, 1)
		if _, err := conn.Read(first); err != nil || first[0] != '%' {
			t.Errorf("HELLO 3 begins with %q, %v, want a map", first, err)
		}
	})
}

func TestCountCountsWhatClientsSend(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
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
	alone(t, func(t *testing.T, node *Node) {
		for _, name := range blocking {
			says(t, name, show(ask(t, node, name, "key", "0")), "-ERR "+name+" is not served by an embedded node")
		}
	})
}

func TestInfo(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Node)
		ask    []string
		want   string // a regular expression
	}{
		{"server", nil, []string{"server"}, `^# Server\r\n(?s:.*)run_id:[0-9a-f]{40}\r\n$`},
		{"replication", nil, []string{"REPLICATION"}, `^# Replication\r\nrole:master\r\n(?s:.*)master_replid:[0-9a-f]{40}\r\n$`},
		{"memory", nil, []string{"memory"}, `^# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n$`},
		{"all", nil, nil, `^# Server\r\n(?s:.*)\r\n\r\n# Replication\r\n(?s:.*)$`},
		{"two", nil, []string{"server", "memory"}, `^# Server\r\n(?s:.*)\r\n\r\n# Memory\r\n[^#]*$`},
		{"everything", nil, []string{"everything"}, `^# Server\r\n(?s:.*)# Memory`},
		{"unknown", nil, []string{"nothing"}, `^$`},
		{"replica", func(n *Node) { n.SetRole("slave") }, []string{"replication"}, `\r\nrole:slave\r\n`},
		{"evicting", func(n *Node) { n.SetEviction("allkeys-lru") }, []string{"memory"}, `\nmaxmemory:104857600\r\nmaxmemory_policy:allkeys-lru\r\n`},
		{"no field", func(n *Node) { n.SetInfo("master_replid", "") }, []string{"replication"}, `^# Replication\r\nrole:master\r\nconnected_slaves:0\r\n$`},
		{"new field", func(n *Node) { n.SetInfo("availability_zone", "a") }, []string{"server"}, `\navailability_zone:a\r\n$`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			alone(t, func(t *testing.T, node *Node) {
				if tt.change != nil {
					tt.change(node)
				}
				got := ask(t, node, append([]string{"INFO"}, tt.ask...)...).Str
				if !regexp.MustCompile(tt.want).MatchString(got) {
					t.Errorf("INFO %v = %q, want a match of %s", tt.ask, got, tt.want)
				}
			})
		})
	}
}

func TestRole(t *testing.T) {
	alone(t, func(t *testing.T, node *Node) {
		says(t, "ROLE", show(ask(t, node, "ROLE")), `["master" 0 []]`)
		node.SetRole("slave")
		if got := show(ask(t, node, "ROLE")); !strings.HasPrefix(got, `["slave" "192.0.2.1" 6379`) {
			t.Errorf("ROLE after SetRole = %s, want a slave", got)
		}
	})
}

func TestSetInfoOutlivesRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := StartInBubble(t, 2)
		nodes[1].SetInfo("run_id", nodes[0].Info("run_id"))
		must(t, nodes[1].RestartEmpty())
		says(t, "run_id after RestartEmpty", nodes[1].Info("run_id"), nodes[0].Info("run_id"))
		says(t, "Info of an unknown field", nodes[1].Info("nothing"), "")
	})
}
