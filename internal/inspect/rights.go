package inspect

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Rights are what the nodes' user may do.
type rights struct {
	missing  map[*acl.Feature][]string // the rules that would allow it
	keys     bool                      // it may use keys under the prefix
	untried  map[byte]bool             // '~', '&': it may run no command that shows whether it may use keys, or channels
	unknown  []string                  // commands that the server does not have
	broad    []string                  // what it may do and does not need
	refused  driver.Reply              // why nothing of this is known
	excluded bool                      // there is no such user
}

// An attempt tries out one right. It writes nothing: it sets keys that are there, and none is.
type attempt struct {
	feature *acl.Feature
	rule    string // for its key or channel, if it shows whether that is there
	cmd     driver.Command
	dry     bool   // it is not to be run, only asked about
	probe   bool   // it is about the rule alone: any of several may show whether that is there
	with    string // what is missing as well, as a rule, for it cannot be tried out without a dry run
}

// probes try out the rule for a key by each command that the user may be allowed: who may not run it
// is told nothing of the key.
func probes(f *acl.Feature, rule, key string) (all []attempt) {
	for _, words := range [][]string{{"GET", key}, {"EXISTS", key}, {"PTTL", key}, {"ZSCORE", key, "f"}, {"HMGET", key, "f"}} {
		all = append(all, attempt{feature: f, rule: rule, cmd: onKey(words...), probe: true})
	}
	run := driver.Command{Args: command("EVAL", "return 0", "1", key).Args, FirstKey: 3, Keys: 1}
	return append(all, attempt{feature: f, rule: rule, cmd: run, probe: true})
}

// attempts are those of all features.
func (t *target) attempts() (all []attempt) {
	key, prefix := t.trial.scratch, t.exam.Prefix
	add := func(f *acl.Feature, a attempt, cmds ...driver.Command) {
		for _, a.cmd = range cmds {
			a.feature = f
			all = append(all, a)
		}
	}
	all = probes(nil, anyKey, prefix+random.Nonce())
	add(acl.Locks, attempt{},
		onKey("SET", key, "none", "XX", "PX", "1"), onKey("GET", key), onKey("DEL", key), onKey("PTTL", key), onKey("PEXPIRE", key, "1"),
		command("EVAL", "return 0", "0"), command("EVALSHA", strings.Repeat("0", 40), "0"), command("INFO", "server"), command("TIME"))
	channel, ofChannel := protocol.WakeChannel+key, acl.Rules(prefix, acl.WakeUps)[0]
	add(acl.WakeUps, attempt{rule: ofChannel}, command("PUBLISH", channel, "")) // nobody listens there
	add(acl.WakeUps, attempt{rule: ofChannel, dry: true}, command("SUBSCRIBE", channel))
	add(acl.WakeUps, attempt{dry: true}, command("UNSUBSCRIBE", channel), command("PUBSUB", "NUMSUB", channel), command("PING"), command("ECHO", "0"))
	all = append(all, probes(acl.Locks, acl.Rules(prefix, acl.Locks)[0], key)...)
	for _, f := range []*acl.Feature{acl.Sets, acl.Semaphore, acl.Shared, acl.Fences} {
		for i, name := range f.Keys {
			all = append(all, probes(f, acl.Rules(prefix, f)[i], strings.NewReplacer("KEYS", key, "*", "0").Replace(name))...)
		}
	}
	add(acl.Semaphore, attempt{}, onKey("EXISTS", key))
	soon := strconv.FormatInt(time.Now().Add(time.Second).UnixMilli(), 10)
	for _, cmd := range []driver.Command{
		onKey("ZADD", key, "XX", "1", "f"), onKey("ZREM", key, "f"), onKey("ZSCORE", key, "f"), onKey("ZCARD", key), onKey("ZCOUNT", key, "0", "1"),
		onKey("ZRANGE", key, "0", "0"), onKey("ZRANGEBYSCORE", key, "0", "1"), onKey("PEXPIREAT", key, soon), onKey("UNLINK", key),
		onKey("ZREMRANGEBYSCORE", key, "0", "1"),
	} {
		for _, f := range []*acl.Feature{acl.Shared, acl.Fences} {
			if slices.Contains(f.Commands, strings.ToLower(cmd.Args[0].(string))) {
				add(f, attempt{}, cmd)
			}
		}
	}
	record := memory.Key(prefix)
	add(acl.RestartGuard, attempt{with: "+hset"}, onKey("HMGET", record, "id"))
	add(acl.RestartGuard, attempt{dry: true}, onKey("HSET", record, "id", ""))
	all = append(all, probes(acl.RestartGuard, acl.Rules(prefix, acl.RestartGuard)[0], record)...)
	if t.locksUser() == t.asker() { // or what another one may ask says nothing of who does
		add(acl.Doctor, attempt{}, command("CLIENT", "INFO"), command("LATENCY", "LATEST"), command("CONFIG", "GET", "maxmemory"), command("ACL", "WHOAMI"),
			command("ACL", "DRYRUN", t.asker(), "PING"), command("CLUSTER", "INFO"), command("SCAN", "0", "COUNT", "1"), command("TYPE", key))
	}
	add(acl.Replicated, attempt{}, driver.Command{Args: []any{"WAIT", "0", "1"}, Blocks: true})
	add(acl.Durable, attempt{}, driver.Command{Args: []any{"WAITAOF", "0", "0", "1"}, Blocks: true})
	return all
}

// tryRights finds out what the user may do: by ACL DRYRUN, or else by doing it.
func (t *target) tryRights(ctx context.Context) {
	attempts := t.attempts()
	plain := onKey("GET", t.exam.Prefix+random.Nonce())
	dry := []driver.Command{t.dryRun(plain), t.dryRun(command("FLUSHALL")), t.dryRun(onKey("GET", "beside:"+random.Nonce()))}
	var run []driver.Command
	for _, a := range attempts {
		dry = append(dry, t.dryRun(a.cmd))
		if !a.dry {
			run = append(run, a.cmd)
		}
	}
	replies, err := t.ask(ctx, patience, dry...)
	switch {
	case err != nil:
		t.fail(ctx, err)
	case protocol.Says(replies[0], "ERR") && strings.Contains(replies[0].Str, "not found"):
		t.rights.excluded = true
	case replies[0].Kind != driver.Failure:
		t.noteBreadth(replies[1], replies[2])
		t.noteRights(attempts, replies[3:])
	case t.exam.User != "" && t.exam.User != t.user:
		t.rights.refused = replies[0]
	default:
		attempts = slices.DeleteFunc(attempts, func(a attempt) bool { return a.dry })
		if replies, err = t.ask(ctx, patience, run...); err != nil {
			t.fail(ctx, err)
			return
		}
		t.noteRights(attempts, replies)
	}
}

// dryRun asks whether the user may run a command.
func (t *target) dryRun(cmd driver.Command) driver.Command {
	return driver.Command{Args: append([]any{"ACL", "DRYRUN", t.locksUser()}, cmd.Args...)}
}

// noteBreadth notes what the user may do that no lock needs.
func (t *target) noteBreadth(flush, beside driver.Reply) {
	if flush.Str == "OK" {
		t.rights.broad = append(t.rights.broad, "FLUSHALL")
	}
	if beside.Str == "OK" && t.exam.Prefix != "" {
		t.rights.broad = append(t.rights.broad, "keys without the prefix")
	}
}

// anyKey stands for the rule that allows the keys under the prefix, whatever they are called.
const anyKey = "any"

// noteRights notes which rules are missing. A rule that no attempt has shown to be there is missing
// as well.
func (t *target) noteRights(attempts []attempt, replies []driver.Reply) {
	r := &t.rights
	r.missing, r.untried = make(map[*acl.Feature][]string), make(map[byte]bool)
	tried, refused := make(map[string]bool), make(map[string]bool)
	for i, a := range attempts {
		ofCommand, ofKey := forbids(replies[i])
		switch unknown := protocol.Says(replies[i], "ERR") && strings.Contains(strings.ToLower(replies[i].Str), "command"); {
		case unknown && !a.probe:
			r.unknown = append(r.unknown, a.command())
		case ofCommand && !a.probe:
			r.missing[a.feature] = append(r.missing[a.feature], "+"+a.command())
			if a.with != "" {
				r.missing[a.feature] = append(r.missing[a.feature], a.with)
			}
		case !unknown && !ofCommand:
			tried[a.rule], refused[a.rule] = true, refused[a.rule] || ofKey
		}
	}
	r.keys = !refused[anyKey]
	for _, a := range attempts {
		if a.rule == "" || a.rule == anyKey || tried[a.rule] && !refused[a.rule] {
			continue
		}
		r.missing[a.feature] = append(r.missing[a.feature], a.rule)
		r.untried[a.rule[0]] = r.untried[a.rule[0]] || !tried[a.rule]
	}
	for f, rules := range r.missing {
		r.missing[f] = distinct(rules)
	}
}

// command names the command of an attempt as rules do.
func (a *attempt) command() string {
	name := strings.ToLower(a.cmd.Args[0].(string))
	if a.feature == acl.Doctor && slices.Contains([]string{"client", "config", "acl", "cluster"}, name) {
		name += "|" + strings.ToLower(a.cmd.Args[1].(string))
	}
	return name
}

// forbids reads the reply of a server that may have forbidden a command, or its key or channel.
// One that forbids both speaks of the command.
func forbids(reply driver.Reply) (ofCommand, ofKey bool) {
	text, no := strings.CutPrefix(reply.Str, "NOPERM ")
	if reply.Kind != driver.Failure {
		no = reply.Str != "" && strings.Contains(reply.Str, " has no permissions ") // a dry run
	}
	if !no {
		return false, false
	}
	ofCommand = strings.Contains(text, "' command")
	return ofCommand, !ofCommand
}
