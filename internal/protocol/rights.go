package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// Commands are a set of the [known] commands.
type Commands uint32

// known are the commands without which a lock would be taken, and then fail under contention, at a renewal
// or at its release; and how many arguments each may have, the first of which is a key. INFO and PUBLISH are
// not among them: the library can do without. The first two run scripts, and are tried by themselves.
var known = [...]struct {
	name string
	args int
}{
	{"eval", 0},
	{"evalsha", 0},
	{"set", 2},
	{"get", 1},
	{"del", 1},
	{"pttl", 1},
	{"pexpire", 2},
	{"pexpireat", 2},
	{"unlink", 1},
	{"exists", 1},
	{"time", 0},
	{"zadd", 3},
	{"zrem", 2},
	{"zscore", 2},
	{"zcard", 1},
	{"zcount", 3},
	{"zrange", 3},
	{"zrangebyscore", 3},
	{"hset", 3},
	{"hget", 2},
	{"hdel", 2},
	{"hgetall", 1},
}

// scripting are the commands that run scripts.
const scripting Commands = 1<<0 | 1<<1

// named returns the set of known commands with these names.
func named(names ...string) (set Commands) {
	for i, command := range known {
		if slices.Contains(names, command.name) {
			set |= 1 << i
		}
	}
	return set
}

// names are those of the set.
func (c Commands) names() (all []string) {
	for i, command := range known {
		if c>>i&1 == 1 {
			all = append(all, command.name)
		}
	}
	return all
}

// Needs of the kinds of locks. Plain locks do without the time and without lines, a fence without trims.
var (
	needsPlain  = named(acl.Locks.Commands...) &^ named("time")
	needsFence  = named("zadd", "zscore")
	needsLine   = named(acl.Locks.Commands...) | named(acl.Turns.Commands...)
	needsSet    = named(acl.Locks.Commands...) | named(acl.Sets.Commands...)
	needsSlots  = named(acl.Locks.Commands...) | named(acl.Semaphore.Commands...)
	needsShared = named(acl.Locks.Commands...) | named(acl.Shared.Commands...)
	needsWaits  = named(acl.Locks.Commands...) | named(acl.Deadlocks.Commands...)
)

// askRights asks a node for the commands that it does not run. The key is the user's next, for the user may
// use no others.
func askRights(key any) driver.Command {
	return driver.Command{Args: []any{"EVAL", scripts.Rights.Source, "0", key, asked}}
}

// asked are the commands as the script takes them.
var asked = func() any {
	var all []string
	for _, command := range known[2:] {
		all = append(all, command.name, strconv.Itoa(command.args))
	}
	return strings.Join(all, " ")
}()

// ofKeys are the commands with a key.
var ofKeys = ^(scripting | named("time")) & (1<<len(known) - 1)

// readRights reads the reply. Where all commands on the key are forbidden, the key itself is forbidden, as
// the first command tells.
func readRights(reply driver.Reply) (unknown, forbidden Commands) {
	for _, lack := range reply.Elems {
		switch name, no := strings.CutPrefix(lack.Str, "-"); {
		case no:
			unknown |= named(name)
		default:
			forbidden |= named(strings.TrimPrefix(name, "+"))
		}
	}
	if (unknown|forbidden)&ofKeys == ofKeys {
		forbidden &^= ofKeys
	}
	return unknown, forbidden
}

// Refuses says why a node cannot take op, its fence included; nil: it can.
func (d Dialect) Refuses(op *Op, fenced bool) error {
	switch {
	case !d.Scriptless:
	case op.Sides:
		return fault.With(errNoScripts, d.AllowScripts())
	case op.unscripted != nil:
		return fault.With(op.unscripted, d.AllowScripts())
	case op.needs != 0 && d.Deletes == ByScript:
		return fault.With(fmt.Errorf("%w: %w", fault.ErrNode, errKeeps), d.AllowScripts())
	}
	lacks := op.needs & (d.Unknown | d.Forbidden)
	if fenced && op.needs != 0 {
		lacks |= needsFence & (d.Unknown | d.Forbidden)
	}
	if d.Scriptless {
		lacks &^= scripting
	}
	if lacks == 0 {
		return nil
	}
	return fault.With(fmt.Errorf("%w: these locks need %s", fault.ErrNode, strings.ToUpper(strings.Join(lacks.names(), ", "))), d.advice(lacks))
}

// advice says what to do about commands that the node lacks.
func (d Dialect) advice(lacks Commands) string {
	var all []string
	if forbidden := lacks & d.Forbidden; forbidden != 0 {
		all = append(all, fault.Lack{}.Advice(forbidden.names()...))
	}
	if unknown := lacks & d.Unknown; unknown != 0 {
		all = append(all, fault.Lack{Unknown: true}.Advice(unknown.names()...))
	}
	return strings.Join(all, "; ")
}

// AllowScripts says what to do about a node that runs no scripts.
func (d Dialect) AllowScripts() string {
	if d.Unknown&scripting == 0 {
		return fault.Lack{}.Advice(scripting.names()...)
	}
	return d.advice(scripting)
}

// lack reads a refusal of a command, in a script or not.
func lack(reply driver.Reply) (l fault.Lack, ok bool) {
	if reply.Kind != driver.Failure {
		return l, false
	}
	said := reply.Err().(*driver.ServerError) //nolint:errorlint // which it is
	if l, ok = fault.LackOf(said); ok && l.Command == "" {
		l.Command = scripts.Refused(said.Message)
	}
	return l, ok
}

// Lacks reports whether replies show that the node does not run a command for its user.
func Lacks(replies []driver.Reply) bool {
	return slices.ContainsFunc(replies, func(reply driver.Reply) bool {
		_, ok := lack(reply)
		return ok
	})
}
