package protocol

import "github.com/quorumlock/quorumlock/driver"

// substitutes reports whether p runs the script that sets keys at a node that has to do without.
func (d Dialect) substitutes(p *Part) bool {
	return d.Scriptless && p.Op.holds && (p.Old == nil || d.Swaps != NoSwap)
}

// hold appends the commands that stand in for the script.
//
// The first sending sets the key where it is missing, and asks who has it. If that is the token
// itself, a second sending prolongs its lease: only the holder's lease may be prolonged, and none
// may be cut, whatever was given up and arrives late; no command does both. So the second
// prolongs whatever is there (what another has taken meanwhile lives longer then, if its holder
// dies), never cuts, and asks once more who has it. A token that is given away is overwritten in
// the first: so either that happens, or the key was missing, but a late one never does both, and
// what was deleted in between does not come back.
func (d Dialect) hold(cmds []driver.Command, p *Part) []driver.Command {
	command := func(args ...any) { cmds = append(cmds, driver.Command{Args: args, FirstKey: 1, Keys: 1}) }
	if p.half != nil {
		command("PEXPIRE", p.Key, p.TTL, "GT")
		command("GET", p.Key)
		return cmds
	}
	command("SET", p.Key, p.Token, "NX", "GET", "PX", p.TTL)
	if p.Old != nil {
		command(d.Swaps.encode(nil, p.Key, p.Old, p.Token, p.TTL)...)
	}
	return append(cmds, p.Cmds[1:]...)
}

// holdReplies is how many replies answer these commands.
func (d Dialect) holdReplies(p *Part) int {
	switch {
	case p.half != nil:
		return 2
	case p.Old != nil:
		return 1 + len(p.Cmds)
	}
	return len(p.Cmds)
}

// decodeHold puts the replies as the script does. More says that the token has the key, and is
// to be prolonged by a second sending.
func (d Dialect) decodeHold(p *Part, replies []driver.Reply) (as []driver.Reply, more bool) {
	has := func(reply driver.Reply, token any) bool {
		return reply.Kind == driver.String && any(reply.Str) == token
	}
	answer := func(n int64, rest []driver.Reply) []driver.Reply {
		return append([]driver.Reply{integer(n)}, rest...)
	}
	if p.half != nil {
		switch pexpire, get := replies[0], replies[1]; {
		case pexpire.Kind == driver.Failure:
			return replies[:1], false
		case has(get, p.Token):
			p.half.idle = pexpire.Int != 1 // the node has the key for longer
			return answer(1, p.half.replies[1:]), false
		case get.Kind == driver.String, get.Kind == driver.Nil:
			return answer(0, p.half.replies[1:]), false
		default:
			return senseless(get), false
		}
	}
	first, rest := replies[0], replies[1:]
	var swapped, unequal bool
	if p.Old != nil {
		swapped, unequal = d.Swaps.decode(replies[1])
		rest = replies[2:]
	}
	switch {
	case first.Kind == driver.Nil:
		return answer(setAnew, rest), false
	case has(first, p.Token):
		return answer(0, rest), true
	case swapped:
		return answer(takenOver, rest), false
	case p.Old != nil && has(first, p.Old) && !unequal:
		return senseless(replies[1]), false
	case first.Kind == driver.String:
		return answer(0, rest), false
	}
	return senseless(first), false
}

// senseless is a reply that none of these commands has. An integer would be taken for one of the
// script's.
func senseless(reply driver.Reply) []driver.Reply {
	if reply.Kind == driver.Integer {
		reply.Int = -1
	}
	return []driver.Reply{reply}
}
