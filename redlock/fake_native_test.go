package redlock

import (
	"slices"
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

// natives of each kind are its commands that compare, and then delete or set.
var fakeNatives = map[fakeKind][]string{
	valkey8: {"SET IFEQ"}, valkey9: {"SET IFEQ", "DELIFEQ"}, redis84: {"SET IFEQ", "DELEX"}, tair: {"CAD", "CAS"},
}

// native runs the commands that stand in for scripts; nil: it is none of them.
func (f *fakeNode) native(args []any) *driver.Reply {
	reply := func(r driver.Reply) *driver.Reply { return &r }
	name := commandName(args)
	compared := map[string]int{"SET IFEQ": 4, "DELIFEQ": 2, "DELEX": 3, "CAD": 2, "CAS": 2}[name] // the argument
	switch name {
	case "EVAL", "EVALSHA", "PROBE":
		switch {
		case f.scriptless:
			return reply(refusal("NOPERM User fake has no permissions to run the '" + strings.ToLower(args[0].(string)) + "' command"))
		case name == "PROBE" && args[0] == "EVAL":
			return reply(refusal("ERR Number of keys can't be negative"))
		case name == "PROBE":
			return reply(refusal("NOSCRIPT No matching script. Please use EVAL."))
		}
		return nil
	case "PUBLISH":
		if f.mute {
			return reply(refusal("NOPERM No permissions to access a channel"))
		}
		return reply(integer(int64(f.publish(args[1].(string), args[2].(string)))))
	case "PUBSUB":
		return reply(array(bulk(args[2].(string)), integer(f.listening(args[2].(string)))))
	case "PEXPIRE": // PEXPIRE key ms GT
		held, ok := f.get(args[1].(string))
		until := f.expiry(args[2].(string))
		if !ok || args[3] == "GT" && !until.After(held.until) {
			return reply(integer(0))
		}
		f.keys[args[1].(string)] = fakeKey{held.token, until}
		return reply(integer(1))
	}
	if compared == 0 {
		return nil
	}
	key := args[1].(string)
	held, ok := f.get(key)
	switch {
	case !slices.Contains(fakeNatives[f.kind], name) && name == "SET IFEQ":
		return reply(refusal("ERR syntax error"))
	case !slices.Contains(fakeNatives[f.kind], name):
		return reply(refusal("ERR unknown command '" + name + "'"))
	case ok && held.token == aList && name == "DELEX":
		return reply(refusal("ERR Key should be of string type if conditions are specified"))
	case ok && held.token == aList:
		return &wrongType
	case !ok && f.kind == tair:
		return reply(integer(-1))
	case (!ok || held.token != args[compared]) && name == "SET IFEQ":
		return &driver.Reply{}
	case !ok || held.token != args[compared]:
		return reply(integer(0))
	case name == "SET IFEQ" && args[5] == "PXAT": // SET key token IFEQ old PXAT 1
		f.keys[key] = fakeKey{args[2].(string), time.UnixMilli(1)}
		return reply(bulk("OK"))
	case name == "SET IFEQ": // SET key token IFEQ old PX ttl
		f.set(key, args[2].(string), args[6].(string))
		return reply(bulk("OK"))
	case name == "CAS": // CAS key old token PX ttl
		f.set(key, args[3].(string), args[5].(string))
	default:
		delete(f.keys, key)
	}
	return reply(integer(1))
}
