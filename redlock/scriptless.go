package redlock

import (
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// holds reports whether r runs the script that sets keys at a node that has to do
// without.
func (d dialect) holds(r *request) bool {
	if !d.scriptless || r.op.task == release || len(r.op.cmds) == 0 {
		return false
	}
	args := r.op.cmds[0].Args
	return args[0] == any("EVALSHA") && args[1] == any(scripts.Hold.Digest) && (len(args) <= inherited || d.swaps != noSwap)
}

// The arguments of a hold.
const (
	holdKey = 3 + iota
	holdToken
	holdTTL
	inherited // the token that is given away, if there is one
)

// hold appends what a request that holds asks for.
//
// It first sets the key where it is missing, and says who has it. If that is the token
// itself, its lease is prolonged, by a second sending: only the holder's may be, and none
// may be cut, whatever was given up and arrives late; no command does both. So the second
// prolongs whatever is there (what another has taken meanwhile lives longer then, if its
// holder dies), never cuts, and says once more who has it. A token that is given away is
// overwritten in the first: so it is either that, or the key was missing, but a late one
// never does both, and what was deleted in between does not come back.
func (d dialect) hold(cmds []driver.Command, r *request) []driver.Command {
	args := r.op.cmds[0].Args
	key, token, ttl := args[holdKey], args[holdToken], args[holdTTL]
	say := func(args ...any) { cmds = append(cmds, driver.Command{Args: args, FirstKey: 1, Keys: 1}) }
	if r.half != nil {
		say("PEXPIRE", key, ttl, "GT")
		say("GET", key)
		return cmds
	}
	say("SET", key, token, "NX", "GET", "PX", ttl)
	if len(args) > inherited {
		say(d.swaps.say(nil, key, args[inherited], token, ttl)...)
	}
	return append(cmds, r.op.cmds[1:]...)
}

// held puts the answers to a hold as the script does. More says that the token has the
// key, and is to be prolonged.
func (d dialect) held(r *request, said []driver.Reply) (as []driver.Reply, more bool) {
	args := r.op.cmds[0].Args
	token := args[holdToken].(string)
	has := func(reply driver.Reply, token any) bool {
		return reply.Kind == driver.String && any(reply.Str) == token
	}
	answer := func(n int64, rest []driver.Reply) []driver.Reply {
		return append([]driver.Reply{{Kind: driver.Integer, Int: n}}, rest...)
	}
	if r.half != nil {
		switch pexpire, get := said[0], said[1]; {
		case pexpire.Kind == driver.Failure:
			return said[:1], false
		case has(get, token):
			r.half.idle = pexpire.Int != 1 // the node has the key for longer
			return answer(1, r.half.said[1:]), false
		case get.Kind == driver.String, get.Kind == driver.Nil:
			return answer(0, r.half.said[1:]), false
		default:
			return senseless(get), false
		}
	}
	first, rest := said[0], said[1:]
	var swapped, unequal bool
	if len(args) > inherited {
		swapped, unequal = d.swaps.hear(said[1])
		rest = said[2:]
	}
	switch {
	case first.Kind == driver.Nil:
		return answer(setAnew, rest), false
	case has(first, token):
		return answer(0, rest), true
	case swapped:
		return answer(takenOver, rest), false
	case len(args) > inherited && has(first, args[inherited]) && !unequal:
		return senseless(said[1]), false
	case first.Kind == driver.String:
		return answer(0, rest), false
	}
	return senseless(first), false
}

// senseless is an answer that none of these commands has. An integer would be taken for one
// of the script's.
func senseless(reply driver.Reply) []driver.Reply {
	if reply.Kind == driver.Integer {
		reply.Int = -1
	}
	return []driver.Reply{reply}
}
