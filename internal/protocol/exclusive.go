package protocol

import (
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// Exclusive is the lock of one token: the key's value is the token.
var Exclusive = &Kind{
	Acquire: &Op{Verb: Acquiring, needs: needsPlain, Finds: true, encode: encodeSet, decode: decodeSet, fence: decodeFence, refusal: refusalAtSet},
	adopt:   &Op{Verb: Acquiring, needs: needsPlain, holds: true, encode: encodeAdopt, decode: decodeHold(setAnew), fence: decodeFence, refusal: refusalBehind},
	Inherit: &Op{Verb: Inheriting, holds: true, encode: encodeHold, decode: decodeHold(takenOver), fence: decodeFence},
	Extend:  &Op{Verb: Extending, grouping: withExtensions, holds: true, encode: encodeHold, decode: decodeHold(setAnew), fence: decodeCarried},
	Release: &Op{Verb: Releasing, grouping: withReleases, decode: decodeRelease},
	Look:    &Op{Verb: Looking, encode: encodeGet, decode: decodeGet},
	Raise:   &Op{Verb: Raising, decode: decodeFence},
}

// encodeSet sets the key where it is missing, and asks for the holder. A waiter also asks for the holder's
// time left.
func encodeSet(a *Ask, m *Memory) []driver.Command {
	cmds := append(m.cmds[:0], driver.Command{
		Args:     append(m.args[:0], "SET", a.Key, a.Token, "NX", "GET", "PX", a.TTL),
		FirstKey: 1, Keys: 1,
	})
	if a.Waits {
		cmds = append(cmds, driver.Command{Args: append(m.args[7:7], "PTTL", a.Key), FirstKey: 1, Keys: 1})
	}
	return cmds
}

// decodeSet reads the value before: nothing, or the token itself, from an earlier sending whose reply was
// lost.
func decodeSet(a *Ask, replies []driver.Reply) (Answer, error) {
	switch reply := replies[0]; {
	case reply.Kind == driver.Nil:
		return Granted, nil
	case reply.Kind == driver.String && reply.Str == a.Token.(string):
		return Granted, nil
	case reply.Kind == driver.String:
		return Taken, nil
	default:
		return Failed, Unexpected(reply)
	}
}

// refusalAtSet reads the holder in the reply to SET, and the time left in the reply to PTTL.
func refusalAtSet(p *Part) Refusal {
	r := p.named(p.Reply[0])
	if r.Named && p.Waits {
		r.Left = TimeLeft(p.Reply[1])
	}
	return r
}

// encodeHold runs the script that sets, prolongs or takes over.
func encodeHold(a *Ask, m *Memory) []driver.Command {
	args := scripts.Hold.Call(m.args[:0], 1)
	args = append(args, a.Key, a.Token, a.TTL)
	if a.Old != nil {
		args = append(args, a.Old)
	}
	return append(m.cmds[:0], driver.Command{Args: args, FirstKey: 3, Keys: 1})
}

// encodeAdopt is a hold with the question for the holder behind it. A fence ends with the same question.
func encodeAdopt(a *Ask, m *Memory) []driver.Command {
	cmds := encodeHold(a, m)
	if a.Fence.Set == nil {
		cmds = append(cmds, driver.Command{Args: append(m.args[8:8], "GET", a.Key), FirstKey: 1, Keys: 1})
	}
	return cmds
}

// refusalBehind reads the holder in the last reply.
func refusalBehind(p *Part) Refusal { return p.named(p.Reply[len(p.Reply)-1]) }

// The replies to a hold, up to the greatest for its op.
const (
	setAnew   = 2
	takenOver = 3 // the token in Old had the key
)

// decodeHold reads the nodes' replies to a hold.
func decodeHold(most int64) func(*Ask, []driver.Reply) (Answer, error) {
	return func(_ *Ask, replies []driver.Reply) (Answer, error) {
		switch reply := replies[0]; {
		case reply.Kind == driver.Integer && reply.Int >= 1 && reply.Int <= most:
			return Granted, nil
		case reply.Kind == driver.Integer && reply.Int == 0:
			return Taken, nil
		default:
			return Failed, Unexpected(reply)
		}
	}
}

// vacant reports whether nobody has a key with this value: the key is missing, or kept for the first in line.
func vacant(value driver.Reply) bool {
	return value.Kind == driver.Nil || value.Kind == driver.String && Kept(value.Str)
}

func encodeGet(a *Ask, m *Memory) []driver.Command {
	return append(m.cmds[:0], driver.Command{Args: append(m.args[:0], "GET", a.Key), FirstKey: 1, Keys: 1})
}

func decodeGet(a *Ask, replies []driver.Reply) (Answer, error) {
	switch reply := replies[0]; {
	case reply.Kind == driver.String && reply.Str == a.Token.(string):
		return Granted, nil
	case vacant(reply):
		return Absent, nil
	case reply.Kind == driver.String:
		return Taken, nil
	default:
		return Failed, Unexpected(reply)
	}
}

// Inspect asks for the holder, and for the time left.
var Inspect = &Op{
	Verb: &Verb{Name: "inspect"},
	encode: func(a *Ask, m *Memory) []driver.Command {
		return append(m.cmds[:0],
			driver.Command{Args: append(m.args[:0], "GET", a.Key), FirstKey: 1, Keys: 1},
			driver.Command{Args: append(m.args[2:2], "PTTL", a.Key), FirstKey: 1, Keys: 1})
	},
	decode: func(_ *Ask, replies []driver.Reply) (Answer, error) {
		for _, reply := range replies {
			if reply.Kind == driver.Failure {
				return Failed, Unexpected(reply)
			}
		}
		switch reply := replies[0]; {
		case vacant(reply):
			return Absent, nil
		case reply.Kind == driver.String:
			return Taken, nil
		default:
			return Failed, Unexpected(reply)
		}
	},
}

// Inspected reads the holder at a node that was asked to [Inspect], and the least time left; 0: the key has
// no expiry.
func (p *Part) Inspected() (token string, left time.Duration) {
	return p.Reply[0].Str, TimeLeft(p.Reply[1])
}

func decodeRelease(_ *Ask, replies []driver.Reply) (Answer, error) {
	switch reply := replies[0]; {
	case reply.Kind == driver.Integer && reply.Int == 1:
		return Granted, nil
	case reply.Kind == driver.Integer && reply.Int == 0:
		return Absent, nil
	default:
		return Failed, Unexpected(reply)
	}
}

// Meet only reaches the nodes, so that they tell their clocks before the first proposal of a fence: a
// machine's own clock may be years off. Any answer will do, for the user may not be allowed to ask for the
// time. It is no grant: see [Op.AnyAnswer].
var Meet = &Op{Verb: Meeting, decode: func(*Ask, []driver.Reply) (Answer, error) { return Absent, nil }}

// Check asks a node what it is. Any answer will do: the node's probe reads it.
var Check = &Op{Verb: &Verb{Name: "check"}, decode: anyReply}

func anyReply(*Ask, []driver.Reply) (Answer, error) { return Granted, nil }
