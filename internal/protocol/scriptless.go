package protocol

import (
	"github.com/quorumlock/quorumlock/driver"
)

// substitutes reports whether p runs the script that sets keys at a node that has to do without.
func (d Dialect) substitutes(p *Part) bool {
	if p.Op.lineless {
		return d.Scriptless || d.Lineless
	}
	return d.Scriptless && p.Op.holds && (p.Old == nil || d.Swaps != NoSwap)
}

// forbidsLine reports whether a node has refused to look at the line of a key whose lock does
// without.
func (d Dialect) forbidsLine(p *Part, replies []driver.Reply) bool {
	return p.Op.lineless && !d.substitutes(p) && len(replies) > 0 && (Says(replies[0], "NOPERM") || Lacks(replies[:1]))
}

// hold appends the commands that replace the script.
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
	if p.Op.lineless {
		return append(cmds, p.plain().Cmds...)
	}
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
	case p.Op.lineless:
		return len(p.plain().Cmds)
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
	if p.Op.lineless {
		return p.plainReplies(replies), false
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

// plain is a try of one who heeds a line as a node takes it that runs no scripts: that of
// [Exclusive].
func (p *Part) plain() *Ask {
	plain := &Ask{Op: Exclusive.Acquire, Key: p.Key, Token: p.Token, TTL: p.TTL, Waits: true, Fence: Fence{Set: p.Fence.Set}}
	if plain.Encode(nil); p.Fence.Number != 0 {
		plain.Carry(p.Fence.Number)
	}
	return plain
}

// plainReplies puts the replies to that as take.lua does.
func (p *Part) plainReplies(replies []driver.Reply) []driver.Reply {
	plain := &Part{Ask: p.plain(), Reply: replies}
	switch answer, _ := plain.Read(); {
	case answer == Taken:
		return []driver.Reply{{Kind: driver.Array, Elems: []driver.Reply{integer(1), replies[0], replies[1], integer(0), integer(1)}}}
	case answer != Granted && replies[0].Kind == driver.Integer:
		return []driver.Reply{{Kind: driver.Array}} // an integer would be taken for a grant
	case answer != Granted:
		return replies[:1]
	}
	switch answer, _ := plain.ReadFence(); answer {
	case Granted:
		return []driver.Reply{integer(1)}
	case Outbid:
		return []driver.Reply{integer(-1)}
	}
	return []driver.Reply{integer(1), replies[len(replies)-fenceReplies]} // it has the key, and no fence
}

// senseless is a reply that none of these commands has. An integer would be taken for one of the
// script's.
func senseless(reply driver.Reply) []driver.Reply {
	if reply.Kind == driver.Integer {
		reply.Int = -1
	}
	return []driver.Reply{reply}
}
