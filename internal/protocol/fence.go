package protocol

import (
	"fmt"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A Fence is the number that an ask proposes for its key's counter, or carries along.
//
// Each node keeps the greatest number that it has accepted for a key, and accepts a number once
// and only upwards. An acquire proposes one number to all nodes, behind the token and in the
// same batch, and a vote is a node that took both. Two quorums share a node, so no two locks
// have the same number, and one that was asked for after another was had has the greater:
// whatever leases and clocks do. The GET behind the number shows that the node had the token
// when it took the number; without it, attempts that overlap could be ordered one way by their
// tenure and the other way by their fences.
type Fence struct {
	Number int64 // 0: none
	Key    any   // of the counter; nil: the Locker gives no fences
	kept   any   // for so many milliseconds
}

// MaxFence is the first number that is none: a server counts in floats, which are exact below.
const MaxFence = 1<<53 - 1

// Unfit says why a node that takes parts in this manner cannot take p, or nil.
func (m *Manner) Unfit(p *Part) error {
	if p.Many != nil {
		if err := p.Many.unfit(m); err != nil {
			return err
		}
	}
	switch {
	case !m.Scriptless:
		return nil
	case p.Op.Sides:
		return errNoScripts
	}
	return p.Op.unscripted
}

// fenceMemory is the memory of an acquire's commands with a fence.
type fenceMemory struct {
	cmds [6]driver.Command
	args [16]any
}

// fenceReplies is how many commands carry a fence, and replies answer them.
const fenceReplies = 4

// Carry puts the fence p behind the ask's commands: what raises the key's counter to p, keeps it
// for so many milliseconds, and shows who has the key then.
//
// No expiry of a counter is ever shortened, whatever TTL and idle time its other clients have: a
// new counter has none, and gets it by NX; one that has an expiry keeps the later one, by GT,
// which takes none for endless.
func (a *Ask) Carry(p int64, kept any) {
	if a.Op.carries {
		a.Fence.Number, a.Fence.kept = p, kept
		a.Encode(nil)
		return
	}
	w := new(fenceMemory)
	args := append(w.args[:0],
		"ZADD", a.Fence.Key, "GT", "CH", strconv.FormatInt(p, 10), "f",
		"PEXPIRE", a.Fence.Key, kept, "NX",
		"PEXPIRE", a.Fence.Key, kept, "GT",
		"GET", a.Key)
	a.Fence.Number = p
	a.Cmds = append(append(w.cmds[:0], a.Cmds...),
		driver.Command{Args: args[:6], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[6:10], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[10:14], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[14:16], FirstKey: 1, Keys: 1})
}

// Uncarry takes the fence off the ask's commands again.
func (a *Ask) Uncarry() {
	if a.Fence.Number != 0 && !a.Op.carries {
		a.Cmds = a.Cmds[:len(a.Cmds)-fenceReplies]
	}
	a.Fence.Number = 0
}

// keepCounter is the expiry of a counter that may have been left without one.
func keepCounter(key, kept any) driver.Command {
	return driver.Command{Args: []any{"PEXPIRE", key, kept, "NX"}, FirstKey: 1, Keys: 1}
}

// Counters asks for the greatest fence that a node has accepted. It may have none.
var Counters = &Op{
	Name: "acquire",
	encode: func(a *Ask, m *Memory) []driver.Command {
		cmds := m.cmds[:0]
		for _, counter := range a.counters() {
			cmds = append(cmds, driver.Command{Args: []any{"ZSCORE", counter, "f"}, FirstKey: 1, Keys: 1})
		}
		return cmds
	},
	decode: func(_ *Ask, replies []driver.Reply) (Answer, error) {
		for _, reply := range replies {
			if reply.Kind != driver.Nil && reply.Kind != driver.String {
				return Failed, fenceRefused(reply)
			}
		}
		return Granted, nil
	},
}

// counters are those of the ask's keys.
func (a *Ask) counters() []any {
	if a.Many == nil {
		return []any{a.Fence.Key}
	}
	return a.Many.counters
}

// Counter is the greatest counter that a node has told.
func (p *Part) Counter() (greatest int64) {
	for _, reply := range p.Reply {
		greatest = max(greatest, number(reply))
	}
	return greatest
}

// number reads a score. Servers print it in any of the ways of a float.
func number(reply driver.Reply) int64 {
	if score, err := strconv.ParseFloat(reply.Str, 64); err == nil {
		return int64(min(score, MaxFence))
	}
	return 0
}

// decodeFence reads the replies to a fence and to the GET behind it, the last of all. Whether an
// expiry was set or was later already is all the same.
func decodeFence(a *Ask, replies []driver.Reply) (Answer, error) {
	replies = replies[len(replies)-fenceReplies:]
	for _, reply := range replies[:fenceReplies-1] {
		if reply.Kind != driver.Integer {
			return Failed, fenceRefused(reply)
		}
	}
	switch accepted, holder := replies[0], replies[fenceReplies-1]; {
	case holder.Kind == driver.Nil:
		return Absent, nil // it has expired in between
	case holder.Kind != driver.String:
		return Failed, Unexpected(holder)
	case any(holder.Str) != a.Token:
		return Taken, nil
	case accepted.Int != 1:
		return Outbid, nil
	}
	return Granted, nil
}

// decodeCarried reads the replies to the fence that an extension carries along. The node has
// accepted as great a one before, unless it has forgotten it.
func decodeCarried(a *Ask, replies []driver.Reply) (Answer, error) {
	answer, err := decodeFence(a, replies)
	if answer == Outbid {
		return Granted, nil
	}
	return answer, err
}

// fenceRefused words what keeps a node from counting.
func fenceRefused(reply driver.Reply) error {
	err := Unexpected(reply)
	if fault.Lasting(err) {
		return fmt.Errorf("the fence: %w (its counter is ql:fence:{KEY}, or ql:fence=KEY of a key with a hash tag; allow ~ql:fence:{KEYS} ~ql:fence=KEYS with +zadd +zscore +pexpire)", err)
	}
	return fmt.Errorf("the fence: %w", err)
}
