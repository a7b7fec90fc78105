package redlock

import (
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A fakeKind is a server by the commands that compare and delete, or compare and set. Of
// the Valkeys there are real ones in test/integration; of Redis 8.4 and Tair there are not,
// and what stands here is what their documentation says.
type fakeKind uint8

const (
	redis7 fakeKind = iota // none
	valkey8
	valkey9
	redis84
	tair
)

// commandName is a command's name in logs and faults, with what tells the uses of one
// name apart.
func commandName(args []any) string {
	name := args[0].(string)
	switch {
	case name == "SET" && len(args) > 3 && args[3] == "IFEQ":
		return "SET IFEQ"
	case strings.HasPrefix(name, "EVAL") && (args[2] == "0" || args[2] == "-1"):
		return "PROBE"
	}
	return name
}

// native runs the commands that stand in for scripts; nil: it is none of them.
func (f *fakeNode) native(args []any) *driver.Reply {
	failure := func(text string) *driver.Reply { return &driver.Reply{Kind: driver.Failure, Str: text} }
	integer := func(n int64) *driver.Reply { return &driver.Reply{Kind: driver.Integer, Int: n} }
	name := commandName(args)
	switch name {
	case "EVAL", "EVALSHA", "PROBE":
		switch {
		case f.scriptless:
			return failure("NOPERM User fake has no permissions to run the '" + strings.ToLower(args[0].(string)) + "' command")
		case name == "PROBE" && args[0] == "EVAL":
			return failure("ERR Number of keys can't be negative")
		case name == "PROBE":
			return failure("NOSCRIPT No matching script. Please use EVAL.")
		}
		return nil
	case "PUBLISH":
		if f.mute {
			return failure("NOPERM No permissions to access a channel")
		}
		return integer(int64(f.publish(args[1].(string))))
	case "PUBSUB":
		count := int64(0)
		for s := range f.ears {
			if s.channels[args[2].(string)] {
				count++
			}
		}
		return &driver.Reply{Kind: driver.Array, Elems: []driver.Reply{{Kind: driver.String, Str: args[2].(string)}, *integer(count)}}
	case "SET IFEQ", "DELIFEQ", "DELEX", "CAD", "CAS", "PEXPIRE":
	default:
		return nil
	}
	key := args[1].(string)
	held, ok := f.get(key)
	typed := func(text string) *driver.Reply {
		if ok && held.token == "a list" {
			return failure(text)
		}
		return nil
	}
	const wrong = "WRONGTYPE Operation against a key holding the wrong kind of value"
	switch {
	case name == "PEXPIRE": // PEXPIRE key ms GT
		until := f.expiry(args[2].(string))
		if !ok || args[3] == "GT" && !until.After(held.until) {
			return integer(0)
		}
		f.keys[key] = fakeKey{held.token, until}
		return integer(1)
	case name == "SET IFEQ" && (f.kind == redis7 || f.kind == tair):
		return failure("ERR syntax error")
	case name == "SET IFEQ": // SET key token IFEQ old PX ttl, or PXAT 1
		reply := typed(wrong)
		switch {
		case reply != nil:
			return reply
		case !ok || held.token != args[4]:
			return &driver.Reply{}
		case args[5] == "PXAT":
			f.keys[key] = fakeKey{args[2].(string), time.UnixMilli(1)}
		default:
			f.set(key, args[2].(string), args[6].(string))
		}
		return &driver.Reply{Kind: driver.String, Str: "OK"}
	case name == "DELIFEQ" && f.kind == valkey9, name == "CAD" && f.kind == tair:
		reply := typed(wrong)
		switch {
		case reply != nil:
			return reply
		case !ok && name == "CAD":
			return integer(-1)
		case !ok || held.token != args[2]:
			return integer(0)
		}
		delete(f.keys, key)
		return integer(1)
	case name == "DELEX" && f.kind == redis84: // DELEX key IFEQ token
		reply := typed("ERR Key should be of string type if conditions are specified")
		switch {
		case reply != nil:
			return reply
		case !ok || held.token != args[3]:
			return integer(0)
		}
		delete(f.keys, key)
		return integer(1)
	case name == "CAS" && f.kind == tair: // CAS key old token PX ttl
		reply := typed(wrong)
		switch {
		case reply != nil:
			return reply
		case !ok:
			return integer(-1)
		case held.token != args[2]:
			return integer(0)
		}
		f.set(key, args[3].(string), args[5].(string))
		return integer(1)
	}
	return failure("ERR unknown command '" + args[0].(string) + "'")
}
