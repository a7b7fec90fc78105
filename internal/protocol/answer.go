// Package protocol is the one place where bytes have a meaning: the commands for a node, and the meaning of
// its replies, for each kind of lock and each server dialect. It is pure: no goroutine, no clock, no I/O.
//
// An [Ask] is a token's question to all nodes. A [Part] is the ask at one node. A [Batch] puts the commands
// of many parts into one sending, and gives each part its replies.
package protocol

import (
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
)

// Answer is the answer of a node to an operation.
type Answer = lease.Answer

// The answers.
const (
	Pending = lease.Pending
	Granted = lease.Granted
	Taken   = lease.Taken
	Absent  = lease.Absent
	Failed  = lease.Failed
	Outbid  = lease.Outbid
)

// Unexpected returns the server's refusal, or words a reply that no server of this protocol gives. It does
// not show the reply's text: that may be somebody's token.
func Unexpected(reply driver.Reply) error {
	if err := reply.Err(); err != nil {
		if l, ok := lack(reply); ok && l.Command != "" {
			return fault.With(err, l.Advice(l.Command))
		}
		return fault.Advise(err)
	}
	kinds := [...]string{"a nil", "an integer", "a string", "an array", "an error"}
	kind := "something unknown"
	if int(reply.Kind) < len(kinds) {
		kind = kinds[reply.Kind]
	}
	return fmt.Errorf("the node answered with %s that is not an answer to this command: is it a Redis server?", kind)
}

// forbidden is [Unexpected] where f keeps keys of its own beside the user's: a server that forbids a key
// does not name it.
func forbidden(a *Ask, reply driver.Reply, f *acl.Feature) error {
	if !Says(reply, "NOPERM") || strings.Contains(reply.Str, "' command") {
		return Unexpected(reply)
	}
	allow := f.String()
	if a.Fence.Number != 0 {
		allow += " " + acl.Fences.String()
	}
	return fault.With(reply.Err(), fmt.Sprintf("the user's ACL forbids the key, or one that %s keeps beside it: allow %s, and what locks need: %s", f.Name, allow, acl.Locks))
}

// Says reports whether the reply is an error with the code.
func Says(reply driver.Reply, code string) bool {
	return reply.Kind == driver.Failure && (reply.Str == code || strings.HasPrefix(reply.Str, code+" "))
}

// LacksScript reports whether a node does not know a script.
func LacksScript(replies []driver.Reply) bool {
	for _, reply := range replies {
		if reply.Kind == driver.Failure && strings.HasPrefix(reply.Str, "NOSCRIPT") {
			return true
		}
	}
	return false
}

func isOK(reply driver.Reply) bool { return reply.Kind == driver.String && reply.Str == "OK" }

func integer(n int64) driver.Reply { return driver.Reply{Kind: driver.Integer, Int: n} }
