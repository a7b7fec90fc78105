package redlock

import (
	"errors"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// A dialect is how a node does what scripts do: it may have a command that deletes a key
// if it holds a token, and one that sets it. The zero dialect has scripts only.
//
// Commands delete wherever they are there. On Valkey 9.1 a release takes 1.2 µs of the
// server's time by DELIFEQ (0.5 µs in the command itself) and 2.4 µs (2.0 µs) by the
// script that takes 32 of them in one call; in a call of its own it takes 3.7 µs (2.6 µs).
// A lock and its release take 3.7 µs then instead of 6, at 128 callers. Setting is left to
// the script where the user may run it: that prolongs, sets or takes over at once.
type dialect struct {
	deletes    deletion
	swaps      swap
	scriptless bool // scripts are forbidden, or not there
}

// A deletion is a way to delete a key that holds a token.
type deletion uint8

const (
	byScript  deletion = iota
	byDELIFEQ          // Valkey 9
	byDELEX            // Redis 8.4
	byCAD              // Tair
	// bySET overwrites the token with a value that has expired long ago: where scripts
	// are forbidden and nothing else deletes (Valkey 8.1). Elsewhere the script is better,
	// for a server that is out of memory refuses a SET.
	bySET
)

// say appends the command to args.
func (d deletion) say(args []any, key, token any) []any {
	switch d {
	case byDELIFEQ:
		return append(args, "DELIFEQ", key, token)
	case byDELEX:
		return append(args, "DELEX", key, "IFEQ", token)
	case byCAD:
		return append(args, "CAD", key, token)
	default:
		return append(args, "SET", key, token, "IFEQ", token, "PXAT", "1")
	}
}

// hear puts the answer as the script does. A key of another type holds no token; Redis
// 8.4 says ERR of it.
func (d deletion) hear(said []driver.Reply) []driver.Reply {
	switch reply := said[0]; {
	case d != bySET && reply.Kind == driver.Integer && reply.Int == 1, d == bySET && isOK(reply):
		return deleted
	case d != bySET && reply.Kind == driver.Integer && reply.Int == 0, d == bySET && reply.Kind == driver.Nil,
		d == byCAD && reply.Kind == driver.Integer && reply.Int == -1, says(reply, "WRONGTYPE"),
		d == byDELEX && says(reply, "ERR") && strings.Contains(reply.Str, "string type"):
		return notThere
	}
	return said[:1]
}

// A swap is a way to set a key that holds another token.
type swap uint8

const (
	noSwap  swap = iota
	bySetIf      // SET with IFEQ: Valkey 8.1 and Redis 8.4
	byCAS        // Tair
)

// say appends to args the command that sets key to token, if it holds old.
func (s swap) say(args []any, key, old, token, ttl any) []any {
	if s == byCAS {
		return append(args, "CAS", key, old, token, "PX", ttl)
	}
	return append(args, "SET", key, token, "IFEQ", old, "PX", ttl)
}

// hear reads the answer: the key was set, or it was not because it does not hold the other
// token. It is neither where the node refuses.
func (s swap) hear(reply driver.Reply) (swapped, unequal bool) {
	if s == byCAS {
		return reply.Kind == driver.Integer && reply.Int == 1,
			reply.Kind == driver.Integer && reply.Int <= 0 || says(reply, "WRONGTYPE")
	}
	return isOK(reply), reply.Kind == driver.Nil || says(reply, "WRONGTYPE")
}

func isOK(reply driver.Reply) bool { return reply.Kind == driver.String && reply.Str == "OK" }

// says reports whether the reply is an error with the code.
func says(reply driver.Reply, code string) bool {
	return reply.Kind == driver.Failure && (reply.Str == code || strings.HasPrefix(reply.Str, code+" "))
}

// probes ask a node for its dialect; versions do not tell, for servers call themselves by
// the version of others. A command that a node does not have, or an option, is an error
// that changes nothing. One that it has finds no match, for nobody has the tokens. The key
// is one that the user is about to use, for it may use no others.
func probes(key any) []driver.Command {
	one, other := any(newToken()), any(newToken())
	cmds := []driver.Command{
		{Args: []any{"EVALSHA", strings.Repeat("0", 40), "0"}},
		{Args: []any{"EVAL", "return 0", "-1"}}, // refused before it is compiled
	}
	for _, args := range [...][]any{
		byDELIFEQ.say(nil, key, one),
		byDELEX.say(nil, key, one),
		byCAD.say(nil, key, one),
		bySetIf.say(nil, key, one, other, "1"),
		byCAS.say(nil, key, one, other, "1"),
	} {
		cmds = append(cmds, driver.Command{Args: args, FirstKey: 1, Keys: 1})
	}
	return cmds
}

// heed reads the answers to the probes.
func heed(replies []driver.Reply) (d dialect) {
	for _, reply := range replies[:2] {
		d.scriptless = d.scriptless || says(reply, "NOPERM") || says(reply, "ERR") && strings.Contains(reply.Str, "unknown command")
	}
	replies = replies[2:]
	for i, s := range [...]swap{bySetIf, byCAS} {
		if _, unequal := s.hear(replies[3+i]); unequal && d.swaps == noSwap {
			d.swaps = s
		}
	}
	for _, how := range [...]deletion{byCAD, byDELEX, byDELIFEQ} {
		if said := how.hear(replies[how-byDELIFEQ:]); said[0].Kind == driver.Integer && said[0].Int == 0 {
			d.deletes = how
		}
	}
	if d.deletes == byScript && d.scriptless && d.swaps == bySetIf {
		d.deletes = bySET
	}
	return d
}

// The limits of nodes where scripts are forbidden, and what to allow.
var (
	errKeeps  = errors.New("its locks are not released but wait for their TTL, for its user may not run scripts, and the server has no command that compares and deletes: allow +eval +evalsha")
	errNoSwap = errors.New("locks are not handed over there, for its user may not run scripts, and the server has no command that compares and sets: allow +eval +evalsha")
)

// limits says what the node cannot do, or nil.
func (d dialect) limits() error {
	switch {
	case d.scriptless && d.deletes == byScript:
		return errKeeps
	case d.scriptless && d.swaps == noSwap:
		return errNoSwap
	}
	return nil
}

// swaps reports whether a quorum of the nodes can give a key from one token to another.
func (l *Locker) swaps() bool {
	can := 0
	for _, n := range l.nodes {
		n.mu.Lock()
		if !n.dialect.scriptless || n.dialect.swaps != noSwap {
			can++
		}
		n.mu.Unlock()
	}
	return can >= l.quorum
}

// head returns a key that the node's next batch is about.
func (n *node) head() any {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.lines {
		if key := n.lines[i].queue.key(); key != nil {
			return key
		}
	}
	return n.locker.options.prefix
}

// forget notes that the node does not know the command any more by which it deleted: it
// has become another unnoticed. It is asked again when it has been away.
func (n *node) forget() {
	n.mu.Lock()
	n.dialect.deletes = byScript
	n.mu.Unlock()
}

// disowned reports whether a node that had a way to delete does not know it any more.
func (d deletion) disowned(said []driver.Reply) bool {
	return d != byScript && said != nil && says(said[0], "ERR")
}
