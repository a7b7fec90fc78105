package protocol

import (
	"errors"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A Dialect is a node's way to do the work of scripts: some nodes have a command that deletes a key if it
// holds a token, and one that sets it. The zero Dialect has scripts only.
//
// Commands delete wherever the node has them and nobody waits: see [NewManner]. On Valkey 9.1 a release takes
// 1.2 µs of the server's time by DELIFEQ (0.5 µs in the command itself) and 2.4 µs (2.0 µs) by the script for
// 32 keys; a script for one key takes 3.7 µs (2.6 µs). A lock and its release take 3.7 µs then instead of 6, at
// 128 callers. Setting is left to the script where the user may run it: the script prolongs, sets or takes over
// at once.
type Dialect struct {
	Deletes    Deletion
	Swaps      bool     // it sets a key that holds another token: SET with IFEQ, of Valkey 8.1 and Redis 8.4
	Scriptless bool     // scripts are forbidden, or not there
	Unknown    Commands // the server has not got them
	Forbidden  Commands // the user may not run them
	Lineless   bool     // the user may not look at lines of waiters
}

// A Deletion is a way to delete a key that holds a token.
type Deletion uint8

// The ways to delete.
const (
	ByScript  Deletion = iota
	ByDELIFEQ          // Valkey 9
	ByDELEX            // Redis 8.4
	// BySET overwrites the token with a value that has expired long ago: where scripts are forbidden and
	// nothing else deletes (Valkey 8.1). Elsewhere the script is better, for a server that is out of memory
	// refuses a SET.
	BySET
)

// Encode appends the command to args.
func (d Deletion) Encode(args []any, key, token any) []any {
	switch d {
	case ByDELIFEQ:
		return append(args, "DELIFEQ", key, token)
	case ByDELEX:
		return append(args, "DELEX", key, "IFEQ", token)
	default:
		return append(args, "SET", key, token, "IFEQ", token, "PXAT", "1")
	}
}

// Decode turns the reply into the script's. A key of another type holds no token; Redis 8.4 answers ERR.
func (d Deletion) Decode(replies []driver.Reply) []driver.Reply {
	switch reply := replies[0]; {
	case d != BySET && reply.Kind == driver.Integer && reply.Int == 1, d == BySET && isOK(reply):
		return wasDeleted
	case d != BySET && reply.Kind == driver.Integer && reply.Int == 0, d == BySET && reply.Kind == driver.Nil,
		Says(reply, "WRONGTYPE"),
		d == ByDELEX && Says(reply, "ERR") && strings.Contains(reply.Str, "string type"):
		return notThere
	}
	return replies[:1]
}

// disowned reports whether a node no longer knows this way to delete.
func (d Deletion) disowned(replies []driver.Reply) bool {
	return d != ByScript && replies != nil && Says(replies[0], "ERR")
}

// swap sets key to token, if the key holds old.
func swap(key, old, token, ttl any) []any {
	return []any{"SET", key, token, "IFEQ", old, "PX", ttl}
}

// swapped reads the reply: done, or unequal where the key does not hold the other token. Neither is true where
// the node refuses.
func swapped(reply driver.Reply) (done, unequal bool) {
	return isOK(reply), reply.Kind == driver.Nil || Says(reply, "WRONGTYPE")
}

// Probes ask a node for its dialect; versions do not tell, for servers call themselves by the version of
// others. A command or option that the node lacks is an error, and changes nothing. A command that it has
// finds no match, for nobody has the tokens. The key is the user's next, for the user may use no others.
func Probes(key any, one, other string) []driver.Command {
	cmds := []driver.Command{
		{Args: []any{"EVALSHA", strings.Repeat("0", 40), "0"}},
		askRights(key),
	}
	for _, args := range [...][]any{
		ByDELIFEQ.Encode(nil, key, one),
		ByDELEX.Encode(nil, key, one),
		swap(key, one, other, "1"),
	} {
		cmds = append(cmds, driver.Command{Args: args, FirstKey: 1, Keys: 1})
	}
	return cmds
}

// DecodeProbes reads the replies to the probes.
func DecodeProbes(replies []driver.Reply) (d Dialect) {
	d.Unknown, d.Forbidden = readRights(replies[1])
	for i, name := range [...]string{"evalsha", "eval"} {
		switch l, ok := lack(replies[i]); {
		case ok && l.Unknown:
			d.Unknown |= named(name)
		case Says(replies[i], "NOPERM"):
			d.Forbidden |= named(name)
		}
	}
	d.Scriptless = (d.Unknown|d.Forbidden)&scripting != 0
	d.Lineless = (d.Unknown|d.Forbidden)&needsLine&^needsPlain != 0
	replies = replies[2:]
	_, d.Swaps = swapped(replies[2])
	for _, how := range [...]Deletion{ByDELEX, ByDELIFEQ} {
		if reply := how.Decode(replies[how-ByDELIFEQ:])[0]; reply.Kind == driver.Integer && reply.Int == 0 {
			d.Deletes = how
		}
	}
	if d.Deletes == ByScript && d.Scriptless && d.Swaps {
		d.Deletes = BySET
	}
	return d
}

// Tell reports whether the replies to the probes say whether the user may run scripts: a busy server's do
// not.
func Tell(replies []driver.Reply) bool {
	return DecodeProbes(replies).Scriptless || Says(replies[0], "NOSCRIPT")
}

// The limits of nodes where scripts are forbidden or not there.
var (
	errKeeps  = errors.New("it gives no locks, for nobody could release them: it runs no scripts, and has no command that compares and deletes")
	errNoSwap = errors.New("locks are not handed over there, for it runs no scripts, and has no command that compares and sets")
)

// Limits words the node's limits, and what to do about them; nil: it has none.
func (d Dialect) Limits() error {
	switch {
	case d.Scriptless && d.Deletes == ByScript:
		return fault.With(errKeeps, d.AllowScripts())
	case !d.HandsOver():
		return fault.With(errNoSwap, d.AllowScripts())
	}
	return nil
}

// HandsOver reports whether the node can give a key from one token to another.
func (d Dialect) HandsOver() bool { return !d.Scriptless || d.Swaps }
