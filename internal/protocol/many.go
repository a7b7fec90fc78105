package protocol

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// Together is the lock that one token holds on several keys, each as in [Exclusive]: a node gives
// it all of them or none, and its vote is for all of them.
func Together(m *Many) *Kind {
	k := together
	k.Many = m
	return &k
}

var together = Kind{
	HeedsLine: true,

	Acquire: &Op{Verb: Acquiring, needs: needsSet, carries: true, encode: encodeTake(true), decode: decodeTake, fence: decodeFenceAll, refusal: refusalAtTake},
	Extend:  &Op{Verb: Extending, carries: true, encode: encodeTake(false), decode: decodeTake, fence: carriedAll},
	Release: &Op{Verb: Releasing, encode: encodeReleaseAll, decode: decodeReleaseAll},
	Look:    &Op{Verb: Looking, encode: encodeGetAll, decode: decodeGetAll},
	Raise:   &Op{Verb: Retaking, carries: true, encode: encodeTake(false), decode: decodeTake, fence: decodeFenceAll},
}

// MaxKeys is the most keys of one lock.
const MaxKeys = 128

// Many are several keys, in order, that one token holds together.
type Many struct {
	Names    []string // as their user named them
	keys     []any    // as the nodes know them
	together bool     // all keys have one hash tag

	unscripted error // why a node cannot take them that runs no scripts
}

// NewMany returns the keys of these names, which are in order, behind the prefix.
func NewMany(prefix string, names []string) *Many {
	m := &Many{Names: names, unscripted: errScriptlessSet, together: true}
	for _, name := range names {
		m.keys = append(m.keys, prefix+name)
		m.together = m.together && hashTag(prefix+name) == hashTag(prefix+names[0])
	}
	return m
}

// First returns the first key.
func (m *Many) First() any { return m.keys[0] }

// Others returns the further keys.
func (m *Many) Others() []any { return m.keys[1:] }

// The reasons why a node takes no locks on several keys.
var (
	errScriptlessSet = fmt.Errorf("%w: it runs no scripts, without which nobody takes several keys or none", fault.ErrNode)
	errApart         = fault.With(fmt.Errorf("%w: a Redis Cluster keeps these keys on different servers", fault.ErrNode), "give all keys of the lock one hash tag, as {account}:1 and {account}:2 have")
)

// unfit says why a node that takes parts in this manner cannot take several keys or none.
func (m *Many) unfit(at *Manner) error {
	switch {
	case at.Scriptless:
		return fault.With(m.unscripted, at.AllowScripts())
	case at.Cluster && !m.together:
		return errApart
	}
	return nil
}

// carriedAll is [decodeCarried] for several keys.
func carriedAll(*Ask, []driver.Reply) (Answer, error) { return Granted, nil }

// encodeReleaseAll announces the keys whether or not anybody listens: which nodes know that is
// known behind the encoding only.
func encodeReleaseAll(a *Ask, _ *Memory) []driver.Command {
	return a.releases(MaxGroup)
}

// releases runs the release script, for so many keys in one call.
func (a *Ask) releases(together int) (cmds []driver.Command) {
	for group := range slices.Chunk(a.Many.keys, together) {
		args := append(scripts.Release.Call(nil, len(group)), group...)
		for range group {
			args = append(args, a.Token)
		}
		if a.Loud {
			args = append(args, WakeChannel, "1")
		}
		cmds = append(cmds, driver.Command{Args: args, FirstKey: 3, Keys: len(group)})
	}
	return cmds
}

// releasesApart reports whether the part releases several keys at a Redis Cluster. There each has a
// call of its own: while their slot moves some may be at another server already.
func (b *Batch) releasesApart(p *Part) bool {
	return b.Cluster && p.Many != nil && p.Op.Does == lease.Frees
}

// gathered puts the replies to that as the script does for as many keys as it takes in one call.
func gathered(replies []driver.Reply) (all []driver.Reply) {
	for group := range slices.Chunk(replies, MaxGroup) {
		sum := integer(0)
		for i, reply := range group {
			if reply.Kind != driver.Integer {
				sum = reply
				break
			}
			sum.Int |= int64(DeletedBits(reply.Int)&1) << i
		}
		all = append(all, sum)
	}
	return all
}

// decodeReleaseAll reads whether any of the keys was deleted. They are set together, so the command
// that set them has run then.
func decodeReleaseAll(_ *Ask, replies []driver.Reply) (Answer, error) {
	answer := Absent
	for _, reply := range replies {
		if reply.Kind != driver.Integer {
			return Failed, Unexpected(reply)
		}
		if DeletedBits(reply.Int) != 0 {
			answer = Granted
		}
	}
	return answer, nil
}

// DeletedBits are those of the deleted keys in the release script's sum.
func DeletedBits(sum int64) uint32 {
	if sum < 0 { // its user may not publish
		sum = -1 - sum
	}
	return uint32(sum & (1<<32 - 1))
}

// Deleted calls do for each key that a node has deleted in a release.
func (p *Part) Deleted(do func(key int)) {
	for i, reply := range p.Reply {
		for left := DeletedBits(reply.Int); left != 0; left &= left - 1 {
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
