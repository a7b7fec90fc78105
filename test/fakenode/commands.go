package fakenode

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// The replies of a server.
func integer(n int64) driver.Reply { return driver.Reply{Kind: driver.Integer, Int: n} }

func bulk(text string) driver.Reply { return driver.Reply{Kind: driver.String, Str: text} }

// Refusal is an error that a server replies.
func Refusal(text string) driver.Reply { return driver.Reply{Kind: driver.Failure, Str: text} }

func array(elems ...driver.Reply) driver.Reply { return driver.Reply{Kind: driver.Array, Elems: elems} }

// wrongType is what a server says of a key that holds no string.
var wrongType = Refusal("WRONGTYPE Operation against a key holding the wrong kind of value")

// RunOne runs a command, and asks neither Answer nor Lose. For within [Node.Change].
func (f *Node) RunOne(args []any) driver.Reply {
	arg := func(i int) string { return args[i].(string) }
	if reply := f.native(args); reply != nil {
		return *reply
	}
	switch arg(0) {
	case "INFO":
		return bulk(f.Info)
	case "SET": // SET key token [NX] GET PX ttl
		old, ok := f.Get(arg(1))
		switch {
		case ok && old.Token == List:
			return wrongType
		case ok && args[3] == "NX":
		default:
			f.set(arg(1), arg(2), args[len(args)-1].(string))
		}
		if ok {
			return bulk(old.Token)
		}
		return driver.Reply{}
	case "GET":
		switch key, ok := f.Get(arg(1)); {
		case ok && key.Token == List:
			return wrongType
		case ok:
			return bulk(key.Token)
		}
		return driver.Reply{}
	case "HMGET":
		if held, _ := f.Get(arg(1)); held.Token != "" {
			return wrongType
		}
		return f.Memories[arg(1)].fields(args[2:])
	case "DEL":
		delete(f.Keys, arg(1))
		delete(f.Memories, arg(1))
		return integer(1)
	case "PTTL":
		left := int64(-2)
		if key, ok := f.Get(arg(1)); ok {
			left = key.Until.Sub(f.Now()).Milliseconds()
		}
		return integer(left)
	case "EVAL", "EVALSHA":
		return f.script(args)
	case "TIME":
		now := f.Now()
		return array(bulk(strconv.FormatInt(now.Unix(), 10)), bulk(strconv.Itoa(now.Nanosecond()/1000)))
	case "ZADD", "ZSCORE", "ZRANGE", "ZREMRANGEBYSCORE":
		if readers, ok := f.Readers[arg(1)]; ok && arg(0) == "ZSCORE" {
			return f.score(readers, arg(2))
		}
		return f.counter(args)
	}
	return Refusal("ERR unknown command")
}

// Get returns what a key holds. For within [Node.Change].
func (f *Node) Get(key string) (Key, bool) {
	held, ok := f.Keys[key]
	if ok && !f.Now().Before(held.Until) {
		delete(f.Keys, key)
		return Key{}, false
	}
	return held, ok
}

// Put sets a key for so long. For within [Node.Change].
func (f *Node) Put(key, token string, ttl time.Duration) { f.Keys[key] = Key{token, f.Now().Add(ttl)} }

func (f *Node) set(key, token, ms string) { f.Keys[key] = Key{token, f.expiry(ms)} }

// expiry is when what is kept for so many milliseconds ends.
func (f *Node) expiry(ms string) time.Time { return f.Now().Add(milliseconds(ms)) }

func milliseconds(ms string) time.Duration {
	n, _ := strconv.ParseInt(ms, 10, 64)
	return time.Duration(n) * time.Millisecond
}

// Plant sets a key as somebody else does.
func (f *Node) Plant(key, token string, ttl time.Duration) {
	f.Change(func(f *Node) { f.Put(key, token, ttl) })
}

// Token returns who has the key at the node, and for how long.
func (f *Node) Token(key string) (string, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held, _ := f.Get(key)
	return held.Token, held.Until.Sub(f.Now())
}

// Fence returns the counter of a key; 0: there is none. For within [Node.Change].
func (f *Node) Fence(key string) int64 { return f.Fences[protocol.FenceSet(key).(string)][key] }

// Floor returns the floor of a key's set of counters; 0: there is none. For within [Node.Change].
func (f *Node) Floor(key string) int64 { return f.Fences[protocol.FenceSet(key).(string)][""] }

// SetFence gives a member of a key's set of counters a number: the key is its counter, and "" the floor. For
// within [Node.Change].
func (f *Node) SetFence(key, member string, number int64) {
	set := protocol.FenceSet(key).(string)
	if f.Fences[set] == nil {
		f.Fences[set] = map[string]int64{}
	}
	f.Fences[set][member] = number
}

// counters are the members of a set that are keys, from the least number to the greatest.
func (f *Node) counters(set string) []string {
	members := slices.Collect(maps.Keys(f.Fences[set]))
	slices.SortFunc(members, func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Fences[set][a], f.Fences[set][b]), cmp.Compare(a, b))
	})
	return members
}

// counter runs what the fences need of sorted sets: ZADD set [GT|NX] [CH] number member, ZSCORE set
// member, ZRANGE set from to WITHSCORES and ZREMRANGEBYSCORE set -inf (number.
func (f *Node) counter(args []any) driver.Reply {
	set, last := args[1].(string), args[len(args)-1].(string)
	score := func(member string) driver.Reply {
		return bulk(strconv.FormatFloat(float64(f.Fences[set][member]), 'g', 17, 64))
	}
	reply := driver.Reply{Kind: driver.Integer}
	switch args[0] {
	case "ZADD":
		p, _ := strconv.ParseInt(args[len(args)-2].(string), 10, 64)
		known, there := f.Fences[set][last]
		if there && (args[2] == "NX" || p == known || args[2] == "GT" && p < known) {
			return reply
		}
		if f.Fences[set] == nil {
			f.Fences[set] = map[string]int64{}
		}
		f.Fences[set][last] = p
		reply.Int = 1
	case "ZSCORE":
		if _, there := f.Fences[set][last]; !there {
			return driver.Reply{}
		}
		return score(last)
	case "ZRANGE":
		reply.Kind = driver.Array
		members := f.counters(set)
		if at, _ := strconv.Atoi(args[2].(string)); at < len(members) {
			reply.Elems = []driver.Reply{{Kind: driver.String, Str: members[at]}, score(members[at])}
		}
	case "ZREMRANGEBYSCORE":
		bound, exclusive := strings.CutPrefix(last, "(")
		below, _ := strconv.ParseInt(bound, 10, 64)
		for member, number := range f.Fences[set] {
			if number < below || !exclusive && number == below {
				delete(f.Fences[set], member)
				reply.Int++
			}
		}
	}
	return reply
}
