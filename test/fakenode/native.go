package fakenode

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A Kind is a server by the commands that compare and delete, or compare and set. Of the Valkeys there are real
// ones in test/integration; of Redis 8.4 there is not, and what stands here is what its documentation says.
type Kind uint8

// The kinds of servers.
const (
	Redis7 Kind = iota // none
	Valkey8
	Valkey9
	Redis84
)

// CommandName is a command's name in logs and faults, with what tells the uses of one name apart: "SET IFEQ" is
// a SET that compares, and "PROBE" an EVAL or EVALSHA that only asks whether scripts may run.
func CommandName(args []any) string {
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
var natives = map[Kind][]string{
	Valkey8: {"SET IFEQ"}, Valkey9: {"SET IFEQ", "DELIFEQ"}, Redis84: {"SET IFEQ", "DELEX"},
}

// native runs the commands that stand in for scripts; nil: it is none of them.
func (f *Node) native(args []any) *driver.Reply {
	reply := func(r driver.Reply) *driver.Reply { return &r }
	name := CommandName(args)
	compared := map[string]int{"SET IFEQ": 4, "DELIFEQ": 2, "DELEX": 3}[name] // the argument
	switch name {
	case "EVAL", "EVALSHA", "PROBE":
		switch {
		case f.Scriptless:
			return reply(Refusal("NOPERM User fake has no permissions to run the '" + strings.ToLower(args[0].(string)) + "' command"))
		case name == "PROBE" && args[0] == "EVAL":
			return reply(Refusal("ERR Number of keys can't be negative"))
		case name == "PROBE":
			return reply(Refusal("NOSCRIPT No matching script. Please use EVAL."))
		}
		return nil
	case "PUBLISH":
		if f.Mute {
			return reply(Refusal("NOPERM No permissions to access a channel"))
		}
		return reply(integer(int64(f.publish(args[1].(string), args[2].(string)))))
	case "PUBSUB":
		var all []driver.Reply
		for _, channel := range args[2:] {
			all = append(all, bulk(channel.(string)), integer(f.listening(channel.(string))))
		}
		return reply(array(all...))
	case "PEXPIRE": // PEXPIRE key ms GT
		held, ok := f.Get(args[1].(string))
		until := f.expiry(args[2].(string))
		if !ok || args[3] == "GT" && !until.After(held.Until) {
			return reply(integer(0))
		}
		f.Keys[args[1].(string)] = Key{held.Token, until}
		return reply(integer(1))
	}
	if compared == 0 {
		return nil
	}
	key := args[1].(string)
	held, ok := f.Get(key)
	switch {
	case !slices.Contains(natives[f.Kind], name) && name == "SET IFEQ":
		return reply(Refusal("ERR syntax error"))
	case !slices.Contains(natives[f.Kind], name):
		return reply(Refusal("ERR unknown command '" + name + "'"))
	case ok && held.Token == List && name == "DELEX":
		return reply(Refusal("ERR Key should be of string type if conditions are specified"))
	case ok && held.Token == List:
		return &wrongType
	case (!ok || held.Token != args[compared]) && name == "SET IFEQ":
		return &driver.Reply{}
	case !ok || held.Token != args[compared]:
		return reply(integer(0))
	case name == "SET IFEQ" && args[5] == "PXAT": // SET key token IFEQ old PXAT 1
		f.Keys[key] = Key{args[2].(string), time.UnixMilli(1)}
		return reply(bulk("OK"))
	case name == "SET IFEQ" && args[5] == "KEEPTTL":
		f.Keys[key] = Key{args[2].(string), held.Until}
		return reply(bulk("OK"))
	case name == "SET IFEQ": // SET key token IFEQ old PX ttl
		f.set(key, args[2].(string), args[6].(string))
		return reply(bulk("OK"))
	}
	delete(f.Keys, key)
	return reply(integer(1))
}
