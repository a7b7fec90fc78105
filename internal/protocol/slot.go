package protocol

import (
	"fmt"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A Semaphore is the slots for n permits. Each slot is a key that one token holds, and votes are counted
// slot by slot, as for an exclusive lock: two holders of a slot have a node in common. Votes for different
// slots are never counted together: N nodes with k slots have N·k places, which is room for more than k
// quorums.
type Semaphore struct {
	Slots []*Kind // of one permit: each slot

	count any   // the permits, as servers take them
	key   any   // where the nodes keep the number of permits
	line  any   // where the nodes keep the waiters
	slots []any // the keys of all slots
}

// MaxPermits is the most permits of a semaphore. Package redlock documents it.
const MaxPermits = 128

// NewSemaphore returns the semaphore of a key, by the nodes' name.
func NewSemaphore(key string, permits int) *Semaphore {
	s := &Semaphore{count: strconv.Itoa(permits)}
	s.key, s.line = Beside(RolePermits, key), Beside(RolePool, key)
	for i := range permits {
		s.slots = append(s.slots, SlotKey(key, i))
	}
	kind := Kind{
		Acquire: &Op{Verb: Acquiring, needs: needsSlots, encode: s.encodeTry, decode: s.decode, fence: decodeFence, refusal: refusalOfSlot, unscripted: errScriptlessSlots},
		Inherit: &Op{Verb: Inheriting, encode: s.counted(encodeHold), decode: s.decodeCounted(decodeHold(takenOver)), fence: decodeFence, unscripted: errScriptlessSlots},
		Extend:  &Op{Verb: Extending, encode: s.counted(encodeHold), decode: s.decodeCounted(decodeHold(setAnew)), fence: decodeCarried, unscripted: errScriptlessSlots},
		Release: Exclusive.Release,
		Look:    Exclusive.Look,
		Raise:   Exclusive.Raise,
	}
	for _, slot := range s.slots {
		of := kind
		of.KeyName = slot.(string)
		s.Slots = append(s.Slots, &of)
	}
	return s
}

// Together is the kind of several permits: the slots at these places, which one token holds as the keys of
// [Together].
func (s *Semaphore) Together(places []int) *Kind {
	keys := &Many{unscripted: errScriptlessSlots, together: true}
	for _, place := range places {
		slot := s.slots[place].(string)
		keys.Names, keys.keys = append(keys.Names, slot), append(keys.keys, slot)
	}
	encode, decode := s.counted(encodeTake(false)), s.decodeCounted(decodeTake)
	return &Kind{
		Many:    keys,
		Acquire: &Op{Verb: Acquiring, needs: needsSlots, carries: true, encode: s.encodeTry, decode: s.decode, fence: decodeFenceAll, refusal: refusalOfSlot},
		Extend:  &Op{Verb: Extending, carries: true, encode: encode, decode: decode, fence: carriedAll},
		Release: together.Release,
		Look:    together.Look,
		Raise:   &Op{Verb: Retaking, carries: true, encode: encode, decode: decode, fence: fenceOfTake},
	}
}

// fenceOfTake is [decodeFenceAll], in front of the reply about the count.
func fenceOfTake(a *Ask, replies []driver.Reply) (Answer, error) {
	return decodeFenceAll(a, replies[:1])
}

// Line names where the nodes keep waiters for permits.
func (s *Semaphore) Line() string { return s.line.(string) }

// encodeTry runs the script on slots that others may have. The script also tells which slots are free, and
// heeds waiters.
func (s *Semaphore) encodeTry(a *Ask, m *Memory) []driver.Command {
	number, slots, sets := any("0"), []any{a.Key}, []any(nil)
	if a.Many != nil {
		slots = a.Many.keys
		if a.Fence.Number != 0 {
			number, sets = strconv.FormatInt(a.Fence.Number, 10), setsOf(slots)
		}
	}
	count := len(slots) + 2 + len(sets) + len(s.slots)
	args := scripts.Slot.Call(make([]any, 0, 12+count), count)
	args = append(append(append(append(args, slots...), s.key, s.line), sets...), s.slots...)
	args = append(args, a.Token, a.TTL, s.count, strconv.Itoa(len(slots)), number)
	line := a.Line
	if line != nil {
		args = append(append(args, line.args()...), strconv.Itoa(line.Most))
	}
	return append(m.cmds[:0], driver.Command{Args: args, FirstKey: 3, Keys: count})
}

// counted puts the number of permits behind the commands for a token's slots. The number has a command of
// its own, for it lives longer than a slot and may be elsewhere: while a Redis Cluster moves their hash
// slot, one of the two is at another server.
func (s *Semaphore) counted(encode func(*Ask, *Memory) []driver.Command) func(*Ask, *Memory) []driver.Command {
	return func(a *Ask, m *Memory) []driver.Command {
		count := &Ask{Key: s.key, Token: s.count, TTL: doubled(a.TTL)}
		return append(encode(a, m), encodeHold(count, new(Memory))...)
	}
}

// doubled is twice a time in the servers' form: the number of permits is kept for twice as long as the
// slots.
func doubled(milliseconds any) any {
	ms, _ := strconv.ParseInt(milliseconds.(string), 10, 64) // a number in this form
	return strconv.FormatInt(2*ms, 10)
}

// decodeCounted reads the replies: the node may count another number of permits, and tells none where its
// slot is moved and the number is at another server already.
func (s *Semaphore) decodeCounted(decode func(*Ask, []driver.Reply) (Answer, error)) func(*Ask, []driver.Reply) (Answer, error) {
	return func(a *Ask, replies []driver.Reply) (Answer, error) {
		count := replies[1]
		answer, err := decode(a, replies[:1])
		switch {
		case answer == Failed && replies[0].Kind == driver.Failure:
			return Failed, forbidden(a, replies[0], acl.Semaphore)
		case answer != Granted, Says(count, "ASK"), Says(count, "MOVED"), Says(count, "TRYAGAIN"):
			return answer, err
		case count.Kind == driver.Integer && count.Int == 0:
			return Failed, s.otherCount("another number")
		case count.Kind != driver.Integer || count.Int < 0 || count.Int > setAnew:
			return Failed, forbidden(a, count, acl.Semaphore)
		}
		return Granted, nil
	}
}

// otherCount is why a node gives no permits: it counts another number.
func (s *Semaphore) otherCount(others string) error {
	return fmt.Errorf("%w: this client counts %s, and others %s: give all clients of the semaphore the same number, and wait for two TTLs after the last permit of the other", fault.ErrPermits, s.count, others)
}

// decode reads a node's replies to a try.
func (s *Semaphore) decode(a *Ask, replies []driver.Reply) (Answer, error) {
	switch reply := replies[0]; {
	case reply.Kind == driver.Integer && reply.Int >= least(a) && reply.Int <= setAnew:
		return Granted, nil
	case isRefusal(reply):
		return Taken, nil
	case reply.Kind == driver.String:
		return Failed, s.otherCount(permits(reply.Str))
	default:
		return Failed, forbidden(a, reply, acl.Semaphore)
	}
}

// least is the least grant: for several slots, 0 says that a number was not accepted.
func least(a *Ask) int64 {
	if a.Many != nil {
		return 0
	}
	return 1
}

// permits words a node's number of permits, unless there is none.
func permits(text string) string {
	if n, err := strconv.Atoi(text); err == nil {
		return strconv.Itoa(n)
	}
	return "something that is no number"
}

// A refusal is an array: the token at a slot, the least PTTL of all slots, the free slots, the time, and for
// how long a ticket is in the way.
func isRefusal(reply driver.Reply) bool {
	return reply.Kind == driver.Array && len(reply.Elems) == 5 &&
		reply.Elems[0].Kind == driver.String && reply.Elems[1].Kind == driver.Integer && reply.Elems[2].Kind == driver.String &&
		reply.Elems[3].Kind == driver.Integer && reply.Elems[4].Kind == driver.Integer
}

// refusalOfSlot reads the token at the slot, and the least time until a slot is free, or no longer kept.
func refusalOfSlot(p *Part) (r Refusal) {
	if !isRefusal(p.Reply[0]) {
		return r
	}
	said := p.Reply[0].Elems
	r = p.named(said[0])
	r.Left, r.Slots, r.Clock, r.Keeps = TimeLeft(said[1]), said[2].Str, said[3].Int, TimeLeft(said[4])
	if r.Keeps > 0 && (r.Left == 0 || r.Keeps < r.Left) {
		r.Left = r.Keeps
	}
	r.InLine, r.First, r.Stands = true, said[4].Int == 0, true
	return r
}

// errScriptlessSlots keeps a node from counting permits.
var errScriptlessSlots = fmt.Errorf("%w: it runs no scripts, without which nobody counts permits", fault.ErrNode)
