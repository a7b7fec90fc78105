package protocol

import (
	"github.com/quorumlock/quorumlock/driver"
)

// substitutes reports whether p runs a substitute of the hold script at this node.
func (d Dialect) substitutes(p *Part) bool {
	if p.Op.lineless {
		return d.Scriptless || d.Lineless
	}
	return d.Scriptless && p.Op.holds && (p.Old == nil || d.Swaps)
}

// forbidsLine reports whether a node has refused to look at the line of a key whose lock does
// without.
func (d Dialect) forbidsLine(p *Part, replies []driver.Reply) bool {
	return p.Op.lineless && !d.substitutes(p) && len(replies) > 0 && (Says(replies[0], "NOPERM") || Lacks(replies[:1]))
}

// hold appends the substitute's commands.
//
// The first sending sets the key where it is missing, and asks for the holder. If the token itself holds the
// key, a second sending prolongs the lease. No single command prolongs the holder's lease alone and never
// cuts a lease, whatever was given up and arrives late. So the second sending prolongs any holder's lease
// (another token, set meanwhile, lives longer then, if its holder dies), never cuts, and asks for the holder
// once more. A token in Old is overwritten in the first sending: either the swap happens, or the key was
// missing, but a late sending never does both, and a deleted token does not come back.
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
		command(swap(p.Key, p.Old, p.Token, p.TTL)...)
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

// decodeHold turns the replies into the script's. More: the token has the key, and a second sending is to
// prolong its lease.
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
	var done, unequal bool
	if p.Old != nil {
		done, unequal = swapped(replies[1])
		rest = replies[2:]
	}
	switch {
	case first.Kind == driver.Nil:
		return answer(setAnew, rest), false
	case has(first, p.Token):
		return answer(0, rest), true
	case done:
		return answer(takenOver, rest), false
	case p.Old != nil && has(first, p.Old) && !unequal:
		return senseless(replies[1]), false
	case first.Kind == driver.String:
		return answer(0, rest), false
	}
	return senseless(first), false
}

// plain is a line-heeding try in the form for a node without scripts: a try of [Exclusive].
func (p *Part) plain() *Ask {
	plain := &Ask{Op: Exclusive.Acquire, Key: p.Key, Token: p.Token, TTL: p.TTL, Waits: true, Fence: Fence{Set: p.Fence.Set}}
	if plain.Encode(nil); p.Fence.Number != 0 {
		plain.Carry(p.Fence.Number)
	}
	return plain
}

// plainReplies turns the replies to plain into those of take.lua.
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
	return []driver.Reply{integer(1), replies[len(replies)-fenceReplies]} // the key, and no fence
}

// senseless is a reply that none of these commands has. An integer would be taken for the script's.
func senseless(reply driver.Reply) []driver.Reply {
	if reply.Kind == driver.Integer {
		reply.Int = -1
	}
	return []driver.Reply{reply}
}
