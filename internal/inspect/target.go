package inspect

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A target is a node under examination. Its methods are called by one goroutine at a time.
type target struct {
	driver.Node
	exam     *exam
	number   int // from 1
	endpoint *driver.Endpoint
	cli      string // what begins a command line of redis-cli

	err       error // why it cannot be examined
	otherwise bool  // it speaks TLS and should not, or should and does not
	report    NodeReport
	replies   map[string]driver.Reply // to what was asked of it, by the command
	info      map[string]string       // the fields of INFO
	user      string                  // whom we are to it; "": it does not say
	addresses []string                // where it is, as far as is known
	expires   time.Time               // its certificate
	certified bool                    // it has one
	dialect   protocol.Dialect
	strays    int      // so many of strayKeys are served by another shard of its Cluster
	moved     string   // what it says of them
	nameless  bool     // it knows no EVAL or no EVALSHA
	native    []string // commands in place of scripts that are there, and forbidden
	trial     trial
	rights    rights
	wake      wake
	foreign   foreign
}

// find adds a finding.
func (t *target) find(id string, s Severity, seen Seen, why string, mend ...string) {
	t.report.Findings = append(t.report.Findings, newFinding(id, t.Name, s, seen, why, mend))
}

// because says of the last finding that there is none where the user of the nodes has these rules.
func (t *target) because(lacks ...string) { t.report.Findings[len(t.report.Findings)-1].lacks = lacks }

// cannotTell adds that something could not be looked at.
func (t *target) cannotTell(id, what, command string, reply driver.Reply) {
	seen := Seen{strings.ToUpper(strings.ReplaceAll(command, "|", " ")): refused(reply)}
	if protocol.Says(reply, "NOPERM") {
		t.find(id, Unknown, seen, "nobody can tell "+what+": its user may not ask", t.redis("acl", "setuser", t.asker(), "+"+command))
		t.because("+" + command)
		return
	}
	t.find(id, Unknown, seen, "nobody can tell "+what+": the server does not say", "# look at "+t.Name+" by hand")
}

// refused is what a node says in place of an answer.
func refused(reply driver.Reply) string {
	if err := reply.Err(); err != nil {
		return err.Error()
	}
	return "no answer that makes sense"
}

// redis is a command line of redis-cli for the node.
func (t *target) redis(words ...string) string {
	for i, word := range words {
		words[i] = quote(word)
	}
	return t.cli + " " + strings.Join(words, " ")
}

// allow is the command line that gives rights to the user that locks have at the node.
func (t *target) allow(rules ...string) string {
	return t.redis(append([]string{"acl", "setuser", t.locksUser()}, rules...)...)
}

// locksUser is the user that locks have at the node.
func (t *target) locksUser() string {
	return cmp.Or(t.exam.User, t.asker())
}

// asker is the user who asks.
func (t *target) asker() string {
	if t.user == "" && t.endpoint != nil {
		return cmp.Or(t.endpoint.Username, "default")
	}
	return cmp.Or(t.user, "default")
}

// ask sends commands to the node, and notes for how long it did not answer. Its replies are as many,
// or there is an error.
func (t *target) ask(ctx context.Context, within time.Duration, cmds ...driver.Command) ([]driver.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sent := time.Now()
	replies, err := t.Driver.Do(ctx, cmds)
	if err == nil && len(replies) != len(cmds) {
		err = fmt.Errorf("%d replies to %d commands: the driver breaks its contract", len(replies), len(cmds))
	}
	if t.replies != nil { // the first one makes the connection
		t.trial.waited(sent, err == nil)
	}
	return replies, err
}

// command is a command without keys.
func command(words ...string) driver.Command {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	return driver.Command{Args: args}
}

// onKey is a command whose first argument is its key.
func onKey(words ...string) driver.Command {
	cmd := command(words...)
	cmd.FirstKey, cmd.Keys = 1, 1
	return cmd
}

// count reads a field of INFO; ok is false if it is not there.
func (t *target) count(field string) (n int64, ok bool) {
	n, err := strconv.ParseInt(t.info[field], 10, 64)
	return n, err == nil
}

// config returns a setting of the server. ok is false if the server did not say; then the reply
// says why.
func (t *target) config(name string) (value string, reply driver.Reply, ok bool) {
	reply = t.replies["CONFIG GET "+name]
	for i := 0; i+1 < len(reply.Elems); i += 2 {
		if strings.EqualFold(reply.Elems[i].Str, name) {
			return reply.Elems[i+1].Str, reply, true
		}
	}
	return "", reply, false
}
