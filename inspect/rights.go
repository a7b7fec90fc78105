package inspect

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/gate"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Rights are what the nodes' user may do.
type rights struct {
	missing  map[*acl.Feature][]string // the rules that would allow it
	keys     bool                      // it may use keys under the prefix
	unknown  []string                  // commands that the server does not have
	broad    []string                  // what it may do and does not need
	refused  driver.Reply              // why nothing of this is known
	excluded bool                      // there is no such user
}

// An attempt tries out one right. It writes nothing: it sets keys that are there, and none is.
type attempt struct {
	feature *acl.Feature
	rule    string // that allows its key
	cmd     driver.Command
	dry     bool // it is not to be run, only asked about
}

// attempts are those of all features.
func (t *target) attempts() (all []attempt) {
	key, prefix := t.trial.scratch, t.exam.Prefix
	soon := strconv.FormatInt(time.Now().Add(time.Second).UnixMilli(), 10)
	beside := func(f *acl.Feature, i int) (string, string) { // the key, and the rule for it
		return strings.NewReplacer("KEYS", key, "*", "0").Replace(f.Keys[i]), acl.Rules(prefix, f)[i]
	}
	add := func(f *acl.Feature, rule string, words ...string) {
		all = append(all, attempt{feature: f, rule: rule, cmd: onKey(words...)})
	}
	own := acl.Rules(prefix, acl.Locks)[0]
	for _, words := range [][]string{
		{"SET", key, "none", "XX", "PX", "1"}, {"GET", key}, {"DEL", key}, {"PTTL", key}, {"PEXPIRE", key, "1"},
	} {
		add(acl.Locks, own, words...)
	}
	for _, words := range [][]string{{"EVAL", "return 0", "0"}, {"EVALSHA", strings.Repeat("0", 40), "0"}, {"INFO", "server"}, {"TIME"}} {
		all = append(all, attempt{feature: acl.Locks, cmd: command(words...)})
	}
	channel := protocol.WakeChannel + key
	for _, words := range [][]string{
		{"PUBLISH", channel, ""}, {"SUBSCRIBE", channel}, {"UNSUBSCRIBE", channel}, {"PUBSUB", "NUMSUB", channel}, {"PING"}, {"ECHO", "0"},
	} {
		all = append(all, attempt{feature: acl.WakeUps, rule: acl.Rules(prefix, acl.WakeUps)[0], cmd: command(words...), dry: true})
	}
	for _, f := range []*acl.Feature{acl.Sets, acl.Semaphore, acl.Shared, acl.Fences} {
		for i := range f.Keys {
			name, rule := beside(f, i)
			add(f, rule, "GET", name)
		}
	}
	add(acl.Semaphore, own, "EXISTS", key)
	for _, words := range [][]string{
		{"ZADD", key, "XX", "1", "f"},
		{"ZREM", key, "f"},
		{"ZSCORE", key, "f"},
		{"ZCARD", key},
		{"ZCOUNT", key, "0", "1"},
		{"ZRANGE", key, "0", "0"},
		{"ZRANGEBYSCORE", key, "0", "1"},
		{"PEXPIREAT", key, soon},
		{"UNLINK", key},
		{"ZREMRANGEBYSCORE", key, "0", "1"},
	} {
		for _, f := range []*acl.Feature{acl.Shared, acl.Fences} {
			if slices.Contains(f.Commands, strings.ToLower(words[0])) {
				add(f, own, words...)
			}
		}
	}
	for i, record := range gate.RecordKeys {
		add(acl.RestartGuard, acl.Rules(prefix, acl.RestartGuard)[i], "MGET", gate.RecordKey(prefix, record))
	}
	return append(all,
		attempt{feature: acl.Replicated, cmd: driver.Command{Args: []any{"WAIT", "0", "1"}, Blocks: true}},
		attempt{feature: acl.Durable, cmd: driver.Command{Args: []any{"WAITAOF", "0", "0", "1"}, Blocks: true}},
	)
}

// tryRights finds out what the user may do: by ACL DRYRUN, or else by doing it.
func (t *target) tryRights(ctx context.Context) {
	attempts := t.attempts()
	plain := onKey("GET", t.exam.Prefix+t.exam.random.Nonce())
	dry := []driver.Command{t.dryRun(plain), t.dryRun(command("FLUSHALL")), t.dryRun(onKey("GET", "beside:"+t.exam.random.Nonce()))}
	run := []driver.Command{plain}
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
		t.noteRights(attempts, replies[0], replies[3:])
	case t.exam.User != "" && t.exam.User != t.user:
		t.rights.refused = replies[0]
	default:
		attempts = slices.DeleteFunc(attempts, func(a attempt) bool { return a.dry })
		if replies, err = t.ask(ctx, patience, run...); err != nil {
			t.fail(ctx, err)
			return
		}
		t.noteRights(attempts, replies[0], replies[1:])
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

// noteRights notes which rules are missing.
func (t *target) noteRights(attempts []attempt, plain driver.Reply, replies []driver.Reply) {
	r := &t.rights
	r.missing = make(map[*acl.Feature][]string)
	_, ofKey := forbids(plain)
	r.keys = !ofKey
	for i, a := range attempts {
		name := strings.ToLower(a.cmd.Args[0].(string))
		switch ofCommand, ofKey := forbids(replies[i]); {
		case ofCommand:
			r.missing[a.feature] = append(r.missing[a.feature], "+"+name)
		case ofKey:
			r.missing[a.feature] = append(r.missing[a.feature], a.rule)
		case protocol.Says(replies[i], "ERR") && strings.Contains(strings.ToLower(replies[i].Str), "command"):
			r.unknown = append(r.unknown, name)
		}
	}
	for f, rules := range r.missing {
		slices.Sort(rules)
		r.missing[f] = slices.Compact(rules)
	}
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

// wanted are the rules of a feature that a refusal asks for: its commands, or its keys and channels.
// Who has the others may have more of them, and then a server refuses the whole line.
func wanted(refusal, prefix string, f *acl.Feature) []string {
	ofCommand, _ := forbids(driver.Reply{Kind: driver.Failure, Str: refusal})
	return slices.DeleteFunc(acl.Rules(prefix, f), func(rule string) bool { return ofCommand != (rule[0] == '+') })
}

// inForce reports whether the settings need a feature.
func (e *exam) inForce(f *acl.Feature) bool {
	switch f {
	case acl.Locks:
		return true
	case acl.Fences:
		return e.Fences
	case acl.RestartGuard:
		return e.RestartGuard
	case acl.Replicated:
		return e.Replicated > 0 && !e.Durable
	case acl.Durable:
		return e.Durable
	}
	return false
}

// checkRights says what the user lacks, and what it has and does not need.
func (t *target) checkRights() {
	needed := []*acl.Feature{acl.Locks, acl.WakeUps}
	for _, f := range acl.Features {
		if t.exam.inForce(f) && f != acl.Locks {
			needed = append(needed, f)
		}
	}
	name := t.locksUser()
	if name == "default" {
		name = "locks" // the default user may be an administrator's, who would lose his rights
	}
	t.report.ACL = printable("ACL SETUSER " + name + " " + strings.Join(acl.Anew(t.exam.Prefix, needed...), " "))
	r := &t.rights
	switch {
	case r.excluded:
		t.find("acl", Unfit, Seen{"user": t.locksUser()}, "there is no such user at the node",
			t.newUser(t.locksUser(), needed)...)
		return
	case r.missing == nil:
		t.cannotTell("acl", "what "+t.locksUser()+" may do", "acl|dryrun", r.refused)
		return
	}
	var lacks, others []string
	var forWhat, forOthers []string
	for _, f := range acl.Features {
		rules := t.lacking(f)
		switch {
		case len(rules) == 0:
		case t.exam.inForce(f):
			lacks, forWhat = append(lacks, rules...), append(forWhat, f.Name)
		default:
			others, forOthers = append(others, rules...), append(forOthers, f.Name)
		}
	}
	if lacks != nil {
		t.find("acl", Unfit, Seen{"user": t.locksUser(), "lacks": join(lacks), "for": strings.Join(forWhat, ", ")},
			"the node has no vote: its user may not do what locks need", t.allow(distinct(lacks)...))
	}
	if others != nil {
		t.find("acl", Warning, Seen{"user": t.locksUser(), "lacks": join(others), "for": strings.Join(forOthers, ", ")},
			"clients that use these have no vote from the node", "# if you use them:", t.allow(distinct(others)...))
	}
	if !r.keys && t.exam.Prefix == "" {
		t.find("acl", Unknown, Seen{"user": t.locksUser(), "keys": "some"}, "nobody can tell whether its user may use the keys of locks: it may not use all keys",
			"# give the prefix of the keys (--prefix), or see that these rules name them: "+acl.Locks.String())
	}
	if len(r.broad) > 0 {
		t.find("acl", Info, Seen{"user": t.locksUser(), "may": strings.Join(r.broad, ", ")},
			"the user may do more than locks need: give them one of their own", t.newUser("locks", needed)...)
	}
}

// newUser is how the node gets a user that may do what is needed, and no more.
func (t *target) newUser(name string, needed []*acl.Feature) []string {
	return []string{
		t.redis(append([]string{"acl", "setuser", name}, acl.Anew(t.exam.Prefix, needed...)...)...),
		"# then a password, also in the URLs of all clients: ACL SETUSER " + name + " on >PASSWORD",
	}
}

// lacking are the rules that a feature lacks, as far as they can be told: of a user who may not
// use all keys under an empty prefix nobody knows which ones locks have.
func (t *target) lacking(f *acl.Feature) (rules []string) {
	for _, rule := range t.rights.missing[f] {
		if strings.HasPrefix(rule, "~") && !t.rights.keys && t.exam.Prefix == "" {
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

// distinct are the words in order, each once.
func distinct(words []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(words)))
}

func join(rules []string) string { return strings.Join(distinct(rules), " ") }
