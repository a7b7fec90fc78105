// Package acl knows the rights that locks and operators need of the nodes' user, by feature. It is the only
// table of rights: docs/operations.md and the documentation of package redlock show the table, the nodes of
// folder deploy have these rights, errors advise them, and package inspect tries them out.
package acl

import (
	"slices"
	"strings"
)

// A Feature is something that needs rights.
type Feature struct {
	Name string // by the users' name

	// Keys and Channels are patterns. KEYS stands for the users' keys with their prefix, PREFIX for the
	// prefix, and :PREFIX for nothing if there is none.
	Keys, Channels []string

	// Commands are names in lower case; "client|info" is a subcommand.
	Commands []string
}

// The features.
var (
	Locks = &Feature{
		Name: "locks", Keys: []string{"KEYS"},
		Commands: []string{"set", "get", "del", "pttl", "pexpire", "eval", "evalsha", "info", "time"},
	}
	WakeUps = &Feature{
		Name: "waiters are woken", Channels: []string{"ql:free:*"},
		Commands: []string{"publish", "subscribe", "unsubscribe", "pubsub", "ping", "echo"},
	}
	Turns = &Feature{
		Name: "WithFairness", Keys: beside("line"), Commands: ofLines,
	}
	Deadlocks = &Feature{
		Name: "WithDeadlockDetection", Keys: beside("waits"), Commands: []string{"hset", "hget", "hdel", "hgetall"},
	}
	Sets      = &Feature{Name: "AcquireAll", Keys: beside("line"), Commands: ofLines}
	Semaphore = &Feature{
		Name: "Semaphore", Keys: beside("slot", "permits", "pool"), Commands: append(slices.Clip(ofLines), "exists"),
	}
	Shared = &Feature{
		Name: "AcquireShared", Keys: beside("readers", "line"),
		Commands: []string{"zadd", "zrem", "zscore", "zcard", "zcount", "zrange", "zrangebyscore", "pexpireat", "unlink"},
	}
	Fences = &Feature{
		Name: "WithFences", Keys: []string{"ql:fences:*"}, Commands: []string{"zadd", "zscore", "zrange", "zremrangebyscore"},
	}
	RestartGuard = &Feature{Name: "WithRestartGuard", Keys: []string{"ql:memory:PREFIX"}, Commands: []string{"hmget", "hset"}}
	Replicated   = &Feature{Name: "Durability.Replicas", Commands: []string{"wait"}}
	Durable      = &Feature{Name: "Durability.Disk", Commands: []string{"waitaof"}}

	// Native is what servers have in place of scripts: Valkey 9 and Redis 8.4.
	Native = &Feature{Name: "cheaper releases", Commands: []string{"delifeq", "delex"}}

	// Revoke is what the command `quorumlock release --force` does.
	Revoke = &Feature{
		Name: "`quorumlock release --force`", Keys: append([]string{"KEYS"}, beside("slot", "readers")...), Channels: []string{"ql:free:*"},
		Commands: []string{"eval", "evalsha", "get", "set", "pttl", "pexpire", "del", "zrange", "zscore", "time", "publish", "pubsub"},
	}

	// Status is the questions of the command `quorumlock status`. For named keys it needs neither scan nor
	// dbsize.
	Status = &Feature{
		Name: "`quorumlock status`", Keys: append([]string{"KEYS", "ql:fences:*"}, beside("slot", "permits", "readers", "waits", "line", "pool")...),
		Commands: []string{"get", "pttl", "zrange", "zscore", "zrangebyscore", "hgetall", "time", "info", "scan", "dbsize", "acl|whoami"},
	}

	// Doctor is the questions of the command `quorumlock doctor`, besides those of locks. It cannot tell of
	// forbidden ones.
	Doctor = &Feature{
		Name: "`quorumlock doctor`", Keys: append([]string{"PREFIXquorumlock:doctor:*"}, RestartGuard.Keys...),
		Commands: []string{"client|info", "hmget", "latency", "config|get", "acl|whoami", "acl|dryrun", "cluster|info", "scan", "type"},
	}
)

// Features are all features, in the order of tables.
var Features = []*Feature{
	Locks, WakeUps, Turns, Deadlocks, Sets, Semaphore, Shared, Fences, RestartGuard, Replicated, Durable, Native, Revoke, Status, Doctor,
}

// ofLines are the commands of scripts that look at lines of waiters.
var ofLines = []string{"zadd", "zrem", "zscore", "zrangebyscore"}

// beside are the patterns of keys beside the users', by their roles. A slot is a key like any.
func beside(roles ...string) (all []string) {
	for _, role := range roles {
		switch role {
		case "slot":
			all = append(all, "ql:slot:{KEYS}*", "ql:slot=KEYS")
		default:
			all = append(all, "ql:"+role+":{KEYS}", "ql:"+role+"=KEYS")
		}
	}
	return all
}

// String shows the rights as an ACL takes them: "~KEYS +set +get".
func (f *Feature) String() string {
	return strings.Join(rules(f, func(p string) string { return p }), " ")
}

// Rules returns the rules of an ACL SETUSER that allow features under a key prefix, each once. A
// pattern of keys behind that of all keys is left out: servers refuse it.
func Rules(prefix string, features ...*Feature) (all []string) {
	literal := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(prefix)
	behind := ":" + literal
	if prefix == "" {
		behind = ""
	}
	named := strings.NewReplacer("KEYS", literal+"*", ":PREFIX", behind, "PREFIX", literal)
	seen := make(map[string]bool)
	for _, f := range features {
		for _, rule := range rules(f, named.Replace) {
			if !seen[rule] && (!seen["~*"] || rule[0] != '~') {
				seen[rule] = true
				all = append(all, rule)
			}
		}
	}
	return all
}

// Anew returns the rules that give a user these rights and no others, whatever rights it had before. Its
// passwords stay.
func Anew(prefix string, features ...*Feature) []string {
	return append([]string{"resetkeys", "resetchannels", "-@all"}, Rules(prefix, features...)...)
}

func rules(f *Feature, named func(string) string) (all []string) {
	for _, key := range f.Keys {
		all = append(all, "~"+named(key))
	}
	for _, channel := range f.Channels {
		all = append(all, "&"+channel)
	}
	for _, command := range f.Commands {
		all = append(all, "+"+command)
	}
	return all
}
