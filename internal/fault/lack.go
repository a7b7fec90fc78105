package fault

import (
	"errors"
	"regexp"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// A Lack is a command that a server does not run for its user.
type Lack struct {
	Command string // in lower case; "": the server does not say
	Unknown bool   // the server has no command of this name; else the user's ACL forbids it
}

// The servers' words: to a client, and in a script.
var (
	forbidden = regexp.MustCompile(`'([a-z|-]+)' command`)
	unknown   = regexp.MustCompile("(?i)unknown command ?['`]?([a-z|.-]*)")
)

// LackOf reads a refusal; ok is false if the refusal is about something else than the command.
func LackOf(reply *driver.ServerError) (l Lack, ok bool) {
	text := reply.Message
	named := forbidden.FindStringSubmatch(text)
	switch {
	case strings.Contains(text, "command called from script"): // "Unknown Redis", or "Unknown Redict"
		return Lack{Unknown: true}, true
	case strings.Contains(text, "can't run this command"): // Redis 7.0, in a script
		return Lack{}, true
	case named != nil && (reply.Code == "NOPERM" || strings.Contains(text, "ACL failure in script")):
		return Lack{Command: named[1]}, true
	}
	if named = unknown.FindStringSubmatch(text); named != nil {
		return Lack{strings.ToLower(named[1]), true}, true
	}
	return Lack{}, false
}

// Advice says what to do about commands that the server lacks for this reason.
func (l Lack) Advice(commands ...string) string {
	if !l.Unknown {
		return "the user's ACL forbids it: allow +" + strings.Join(commands, " +")
	}
	return "the server does not know " + strings.ToUpper(strings.Join(commands, ", ")) + ": see that no rename-command in its redis.conf, and no proxy or service in front of it, takes that away"
}

// Without says what to do about a command that a node refuses with err.
func Without(err error, command string) string {
	var reply *driver.ServerError
	l := Lack{Unknown: true}
	if errors.As(err, &reply) {
		said, ok := LackOf(reply)
		l.Unknown = ok && said.Unknown || !ok && reply.Code != "NOPERM"
	}
	return l.Advice(command)
}
