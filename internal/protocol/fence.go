package protocol

import (
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
)

// A Fence is the number that an ask proposes for its key's counter, or carries along.
//
// Each node keeps the greatest number that it has accepted for a key, and accepts each number once, and only
// upwards. Forgotten numbers are below the node's floor, and a number that is not above the floor is no
// vote. An acquire proposes one number to all nodes, behind the token and in the same batch; a node that
// took both has voted. Two quorums share a node, so no two locks have the same number, and a lock that was
// asked for after another's grant has the greater one: whatever leases and clocks do. The GET behind the
// number shows that the node had the token when it took the number; without the GET, overlapping attempts
// could be ordered one way by their tenure and the other way by their fences.
type Fence struct {
	Number int64 // 0: none
	Set    any   // where nodes keep the counter: see [FenceSet]; nil: the Locker gives no fences
}

// MaxFence is the first number beyond all fences: a server counts in floats, which are exact below.
const MaxFence = 1<<53 - 1

// Unfit says why a node that takes parts in this manner cannot take p, or nil.
func (m *Manner) Unfit(p *Part) error {
	if p.Many != nil {
		if err := p.Many.unfit(m); err != nil {
			return err
		}
	}
	return m.Refuses(p.Op, p.Fence.Set != nil)
}

// fenceMemory is the memory of an acquire's commands with a fence.
type fenceMemory struct {
	cmds [5]driver.Command
	args [11]any
}

// fenceReplies is how many commands carry a fence, and replies answer them.
const fenceReplies = 3

// Carry puts the fence p behind the ask's commands: they raise the key's counter to p, read the floor, and
// then the holder. The floor is read after the counter: an earlier floor may be from before a trim that has
// forgotten a greater number. An extension only raises the counter.
func (a *Ask) Carry(p int64) {
	a.Fence.Number = p
	if a.Op.carries {
		a.Encode(nil)
		return
	}
	w := new(fenceMemory)
	args := append(w.args[:0],
		"ZADD", a.Fence.Set, "GT", "CH", strconv.FormatInt(p, 10), a.Key,
		"ZSCORE", a.Fence.Set, floor,
		"GET", a.Key)
	a.Cmds = append(append(w.cmds[:0], a.Cmds...), driver.Command{Args: args[:6], FirstKey: 1, Keys: 1})
	if !a.Op.Prolongs {
		a.Cmds = append(a.Cmds,
			driver.Command{Args: args[6:9], FirstKey: 1, Keys: 1},
			driver.Command{Args: args[9:11], FirstKey: 1, Keys: 1})
	}
}

// Uncarry takes the fence off the ask's commands again.
func (a *Ask) Uncarry() {
	if a.Fence.Number != 0 && !a.Op.carries {
		a.Cmds = a.Cmds[:len(a.Cmds)-fenceReplies]
	}
	a.Fence.Number = 0
}

// Counters asks for the greatest fence that a node has accepted, or may have forgotten. There may be none.
var Counters = &Op{
	Verb: &Verb{Name: "acquire"},
	encode: func(a *Ask, m *Memory) []driver.Command {
		cmds := m.cmds[:0]
		for _, key := range a.keys() {
			set := FenceSet(key.(string))
			cmds = append(cmds,
				driver.Command{Args: []any{"ZSCORE", set, key}, FirstKey: 1, Keys: 1},
				driver.Command{Args: []any{"ZSCORE", set, floor}, FirstKey: 1, Keys: 1})
		}
		return cmds
	},
	decode: func(_ *Ask, replies []driver.Reply) (Answer, error) {
		for _, reply := range replies {
			if _, ok := score(reply); !ok {
				return Failed, fenceRefused(reply)
			}
		}
		return Granted, nil
	},
}

// keys are the keys of the ask.
func (a *Ask) keys() []any {
	if a.Many == nil {
		return []any{a.Key}
	}
	return a.Many.keys
}

// Sets are where nodes keep the counters of the ask's keys.
func (a *Ask) Sets() []any { return setsOf(a.keys()) }

func setsOf(keys []any) []any {
	sets := make([]any, len(keys))
	for i, key := range keys {
		sets[i] = FenceSet(key.(string))
	}
	return sets
}

// Counter is the greatest counter or floor in a node's replies.
func (p *Part) Counter() (greatest int64) {
	for _, reply := range p.Reply {
		told, _ := score(reply)
		greatest = max(greatest, told)
	}
	return greatest
}

// score reads a score; 0: there is none. Servers print scores in all forms of a float.
func score(reply driver.Reply) (number int64, ok bool) {
	if reply.Kind == driver.Nil {
		return 0, true
	}
	float, err := strconv.ParseFloat(reply.Str, 64)
	if reply.Kind != driver.String || err != nil || math.IsNaN(float) {
		return 0, false
	}
	return int64(max(0, min(float, MaxFence))), true
}

// decodeFence reads the last replies: to a fence, and to the GET behind it.
func decodeFence(a *Ask, replies []driver.Reply) (Answer, error) {
	replies = replies[len(replies)-fenceReplies:]
	accepted, holder := replies[0], replies[2]
	least, ok := score(replies[1])
	switch {
	case accepted.Kind != driver.Integer:
		return Failed, fenceRefused(accepted)
	case !ok:
		return Failed, fenceRefused(replies[1])
	case holder.Kind == driver.Nil:
		return Absent, nil // the token has expired in between
	case holder.Kind != driver.String:
		return Failed, Unexpected(holder)
	case any(holder.Str) != a.Token:
		return Taken, nil
	case accepted.Int != 1 || least >= a.Fence.Number:
		return Outbid, nil
	}
	return Granted, nil
}

// decodeCarried reads the last reply: to the fence of an extension.
func decodeCarried(_ *Ask, replies []driver.Reply) (Answer, error) {
	if raised := replies[len(replies)-1]; raised.Kind != driver.Integer {
		return Failed, fenceRefused(raised)
	}
	return Granted, nil
}

// fenceRefused words why a node does not count.
func fenceRefused(reply driver.Reply) error {
	err := Unexpected(reply)
	if Says(reply, "NOPERM") {
		return fmt.Errorf("the fence: %w (allow %s)", err, acl.Fences)
	}
	return fmt.Errorf("the fence: %w", err)
}

// floor is the member of a set of counters that is no key's, for no key is empty: numbers of any key up to
// its score may have been forgotten.
const floor = ""

// FenceSet names the sorted set in which nodes keep the counter of a key, boxed once: the score of the
// member of that name. Each slot of a Redis Cluster has a set, on the server of its keys. All clients use
// the same sets, Cluster or not, whatever their prefix.
func FenceSet(key string) any {
	s := slots()
	return s.sets[s.of(key)]
}

// A slotTable knows the slots of a Redis Cluster.
type slotTable struct {
	crc  [256]uint16 // CRC16 of a byte, as in XMODEM
	sets [16384]any
}

// slots takes some milliseconds for a hash tag of each slot: the shortest number.
var slots = sync.OnceValue(func() *slotTable {
	s := new(slotTable)
	for i := range s.crc {
		c := uint16(i) << 8
		for range 8 {
			c = c<<1 ^ c>>15*0x1021
		}
		s.crc[i] = c
	}
	for i, left := int64(0), len(s.sets); left > 0; i++ {
		tag := strconv.FormatInt(i, 36)
		if slot := s.of(tag); s.sets[slot] == nil {
			s.sets[slot] = FenceSets + "{" + tag + "}"
			left--
		}
	}
	return s
})

// of is the slot of a key.
func (s *slotTable) of(key string) int {
	var c uint16
	for _, b := range []byte(hashTag(key)) {
		c = c<<8 ^ s.crc[byte(c>>8)^b]
	}
	return int(c) % len(s.sets)
}

// FenceSets begins the names of all sets of counters.
const FenceSets = Reserved + "fences:"

// The questions of a trim. Neither is repeated after an unknown outcome.
var (
	SizeUp = NewOp("trim", true, decodeTrim)
	Trim   = NewOp("trim", true, decodeTrim)
)

func decodeTrim(replies []driver.Reply) error {
	for _, reply := range replies {
		if reply.Kind == driver.Failure {
			return fenceRefused(reply)
		}
	}
	return nil
}

// AskSize appends the commands of a [SizeUp]: for the counter with this many lesser counters in the set, and
// for the floor.
func AskSize(cmds []driver.Command, set any, others int) []driver.Command {
	at := strconv.Itoa(others)
	return append(cmds,
		driver.Command{Args: []any{"ZRANGE", set, at, at, "WITHSCORES"}, FirstKey: 1, Keys: 1},
		driver.Command{Args: []any{"ZSCORE", set, floor}, FirstKey: 1, Keys: 1})
}

// ReadSize reads the replies; ok is false if some are missing, or the node makes no sense.
func ReadSize(replies []driver.Reply) (counter, least int64, ok bool) {
	member := replies[0].Elems
	if len(member) == 1 { // in RESP3
		member = member[0].Elems
	}
	if len(member) != 2 || member[1].Kind != driver.String {
		return 0, 0, false
	}
	counter, ok1 := score(member[1])
	least, ok2 := score(replies[1])
	return counter, least, ok1 && ok2
}

// AskTrim appends the commands of a [Trim] of a set whose floor at the node was seen: it makes next the
// floor, and forgets numbers below seen. Next is not below seen.
//
// A trim is safe whichever of the two commands is refused, lost, late or run again, at this server or at its
// successor: forgotten numbers are below the floor by then. Numbers from seen up to next stay, for a node
// that is out of memory refuses the floor and forgets all the same.
func AskTrim(cmds []driver.Command, set any, seen, next int64) []driver.Command {
	return append(cmds,
		driver.Command{Args: []any{"ZADD", set, "GT", strconv.FormatInt(next, 10), floor}, FirstKey: 1, Keys: 1},
		driver.Command{Args: []any{"ZREMRANGEBYSCORE", set, "-inf", "(" + strconv.FormatInt(seen, 10)}, FirstKey: 1, Keys: 1})
}
