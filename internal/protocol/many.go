package protocol

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// Together is the lock that one token holds on several keys, each as in [Exclusive]: a node gives it
// all of them or none, and its vote is for all of them.
func Together(m *Many) *Kind {
	k := together
	k.Many = m
	return &k
}

var together = Kind{
	Acquire: &Op{Name: "acquire", Tries: true, Sets: true, Votes: true, carries: true, encode: encodeHoldAll(true), decode: decodeHoldAll, fence: decodeFenceAll, holder: holderOfAll},
	Adopt:   &Op{Name: "acquire", Tries: true, Sets: true, Votes: true, carries: true, encode: encodeHoldAll(true), decode: decodeHoldAll, fence: decodeFenceAll, holder: holderOfAll},
	Extend:  &Op{Name: "extend", Sets: true, Votes: true, Prolongs: true, carries: true, encode: encodeHoldAll(false), decode: decodeHoldAll, fence: carriedAll},
	Renew:   &Op{Name: "renew", Sets: true, Votes: true, Prolongs: true, carries: true, encode: encodeHoldAll(false), decode: decodeHoldAll, fence: carriedAll},
	Release: &Op{Name: "release", Frees: true, encode: encodeReleaseAll, decode: decodeReleaseAll},
	Look:    &Op{Name: "held", encode: encodeGetAll, decode: decodeGetAll},
	Raise:   &Op{Name: "acquire", Sets: true, Votes: true, carries: true, encode: encodeHoldAll(false), decode: decodeHoldAll, fence: decodeFenceAll},
}

// MaxKeys is the most keys of one lock.
const MaxKeys = 128

// Many is what one token asks of several keys.
type Many struct {
	*Keys
	Turn
	// Carried are the marks of keys that its caller holds already. Who has left one of them waits for
	// that key, so his other marks keep nobody off who has it.
	Carried []any
}

// Keys are several keys, in order, with what is kept beside each.
type Keys struct {
	Names       []string // as their user named them
	keys, marks []any    // as the nodes know them
	together    bool     // all keys have one hash tag

	unscripted error // why a node cannot take them that runs no scripts
}

// A Turn is when somebody began to wait for keys, which the nodes tell others of who wait for
// several keys. It is advice: only the keys themselves give votes.
type Turn struct {
	Since int64         // by the nodes' clocks, in microseconds; 0: nobody has told yet
	Name  string        // whose it is, in hex digits
	Stays time.Duration // for so long a node keeps others off that refuses the keys; 0: it does not
}

// mark is what a turn leaves there.
func (t *Turn) mark() string { return fmt.Sprintf("ql:wanted %d %s", t.Since, t.Name) }

// NewKeys returns the keys of these names, which are in order, behind the prefix.
func NewKeys(prefix string, names []string) *Keys {
	k := &Keys{Names: names, unscripted: errScriptlessSet, together: true}
	for _, name := range names {
		key := prefix + name
		k.keys, k.marks = append(k.keys, key), append(k.marks, Beside(RoleWanted, key))
		k.together = k.together && hashTag(key) == hashTag(prefix+names[0])
	}
	return k
}

// First returns the first key.
func (k *Keys) First() any { return k.keys[0] }

// MarksOf returns the marks of other keys behind the prefix, as far as a node can look at them that
// takes these: if all of these have one hash tag, it may be a Redis Cluster.
func (k *Keys) MarksOf(prefix string, names []string) (marks []any) {
	for _, name := range names {
		key := prefix + name
		if HasNames(key) && (!k.together || hashTag(key) == hashTag(k.keys[0].(string))) {
			marks = append(marks, Beside(RoleWanted, key))
		}
	}
	return marks
}

// Others returns the further keys.
func (k *Keys) Others() []any { return k.keys[1:] }

// The reasons why a node takes no locks on several keys.
var (
	errScriptlessSet = fault.With(fmt.Errorf("%w: it runs no scripts, without which nobody takes several keys or none", fault.ErrNode), "allow +eval +evalsha")
	errApart         = fault.With(fmt.Errorf("%w: a Redis Cluster keeps these keys on different servers", fault.ErrNode), "give all keys of the lock one hash tag, as {account}:1 and {account}:2 have")
)

// unfit says why a node that takes parts in this manner cannot take several keys or none.
func (k *Keys) unfit(m *Manner) error {
	switch {
	case m.Scriptless:
		return k.unscripted
	case m.Cluster && !k.together:
		return errApart
	}
	return nil
}

// encodeHoldAll runs the script that sets or prolongs all keys. Queues: for one who obeys the marks
// of those who wait, and may leave marks of its own.
func encodeHoldAll(queues bool) func(*Ask, *Memory) []driver.Command {
	return func(a *Ask, _ *Memory) []driver.Command {
		k := a.Many
		keys := slices.Clone(k.keys)
		if a.Fence.Number != 0 {
			keys = append(keys, setsOf(k.keys)...)
		}
		if queues {
			keys = append(append(keys, k.Carried...), k.marks...)
		}
		args := append(scripts.HoldAll.Call(nil, len(keys)), keys...)
		args = append(args, a.Token, a.TTL, strconv.Itoa(len(k.keys)), strconv.FormatInt(a.Fence.Number, 10))
		if queues {
			args = append(args, strconv.FormatInt(k.Since, 10), k.Name, Milliseconds(k.Stays))
		}
		return []driver.Command{{Args: args, FirstKey: 3, Keys: len(keys)}}
	}
}

// decodeHoldAll reads whether the node has given the token all keys.
func decodeHoldAll(a *Ask, replies []driver.Reply) (Answer, error) {
	reply := replies[0]
	way, name := inTheWay(a, reply)
	switch {
	case reply.Kind == driver.Integer && (reply.Int == 0 || reply.Int == 1):
		return Granted, nil
	case len(way) == 1:
		return Failed, fmt.Errorf("key %q: %w", name, Unexpected(driver.Reply{Kind: driver.Failure, Str: "WRONGTYPE it holds no string"}))
	case len(way) == 4:
		return Taken, nil
	}
	return Failed, forbidden(a, reply, acl.Sets)
}

// inTheWay reads a refusal, and the name of the key that is in the way; nil: it is none.
func inTheWay(a *Ask, reply driver.Reply) (way []driver.Reply, name string) {
	if reply.Kind != driver.Array || len(reply.Elems) == 0 {
		return nil, ""
	}
	place := reply.Elems[0]
	if place.Kind != driver.Integer || place.Int < 1 || place.Int > int64(len(a.Many.Names)) {
		return nil, ""
	}
	return reply.Elems, a.Many.Names[place.Int-1]
}

// decodeFenceAll reads whether all counters took the number.
func decodeFenceAll(_ *Ask, replies []driver.Reply) (Answer, error) {
	if replies[0].Int == 0 {
		return Outbid, nil
	}
	return Granted, nil
}

// carriedAll is [decodeCarried] for several keys.
func carriedAll(*Ask, []driver.Reply) (Answer, error) { return Granted, nil }

// holderOfAll reads who has the key that is in the way: a token, or the mark of one who waits.
func holderOfAll(p *Part) (token string, left time.Duration, ok bool) {
	way, _ := inTheWay(p.Ask, p.Reply[0])
	if len(way) != 4 {
		return "", 0, false
	}
	token, ok = p.other(way[1])
	return token, timeLeft(way[2]), ok
}

// InTheWay is the name of the key that is in the way at a node that has refused several, and the
// time by its clock, in microseconds.
func (p *Part) InTheWay() (name string, time int64, ok bool) {
	if p.Many == nil || len(p.Reply) == 0 {
		return "", 0, false
	}
	way, name := inTheWay(p.Ask, p.Reply[0])
	if len(way) != 4 {
		return name, 0, false
	}
	return name, way[3].Int, true
}

// encodeReleaseAll announces the keys whether or not anybody listens: which nodes know that is known
// behind the encoding only.
func encodeReleaseAll(a *Ask, _ *Memory) []driver.Command {
	if a.Loud {
		return releases(a.Many.keys, a.Token, WakeChannel, "1")
	}
	return releases(a.Many.keys, a.Token)
}

// releases runs the release script, for as many keys in one call as it takes.
func releases(keys []any, token any, channel ...any) (cmds []driver.Command) {
	for group := range slices.Chunk(keys, MaxGroup) {
		args := append(scripts.Release.Call(nil, len(group)), group...)
		for range group {
			args = append(args, token)
		}
		cmds = append(cmds, driver.Command{Args: append(args, channel...), FirstKey: 3, Keys: len(group)})
	}
	return cmds
}

// unmark takes marks away. They expire by themselves if a node does not answer.
var unmark = NewOp("unmark", false, func([]driver.Reply) error { return nil })

// Unmark takes the marks of this turn away.
func (m *Many) Unmark() (*Op, []driver.Command) {
	return unmark, releases(m.marks, m.mark())
}

// decodeReleaseAll reads whether any of the keys was deleted. They are set together, so the command
// that set them has run then.
func decodeReleaseAll(_ *Ask, replies []driver.Reply) (Answer, error) {
	answer := Absent
	for _, reply := range replies {
		if reply.Kind != driver.Integer {
			return Failed, Unexpected(reply)
		}
		if deletedBits(reply.Int) != 0 {
			answer = Granted
		}
	}
	return answer, nil
}

// deletedBits are those of the deleted keys in the release script's sum.
func deletedBits(sum int64) uint32 {
	if sum < 0 { // its user may not publish
		sum = -1 - sum
	}
	return uint32(sum & (1<<32 - 1))
}

// Deleted calls do for each key that a node has deleted in a release.
func (p *Part) Deleted(do func(key int)) {
	for i, reply := range p.Reply {
		for left := deletedBits(reply.Int); left != 0; left &= left - 1 {
			do(i*MaxGroup + bits.TrailingZeros32(left))
		}
	}
}

// encodeGetAll asks who has each key.
func encodeGetAll(a *Ask, _ *Memory) (cmds []driver.Command) {
	for _, key := range a.Many.keys {
		cmds = append(cmds, driver.Command{Args: []any{"GET", key}, FirstKey: 1, Keys: 1})
	}
	return cmds
}

// decodeGetAll reads whether the token has all keys.
func decodeGetAll(a *Ask, replies []driver.Reply) (Answer, error) {
	all := Granted
	for _, reply := range replies {
		switch answer, err := decodeGet(a, []driver.Reply{reply}); answer {
		case Granted:
		case Absent:
			all = Absent
		default:
			return answer, err
		}
	}
	return all, nil
}
