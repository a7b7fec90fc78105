package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// Shared is the lock of several tokens, and of nobody alone meanwhile: the key's value is [SharedValue], and
// its readers are kept beside the key.
var Shared = &Kind{
	Joins:   true,
	Acquire: &Op{Verb: Acquiring, needs: needsShared, Reads: true, Sides: true, mode: join, carries: true, grouping: withReaders, decode: decodeShare, fence: decodeNumber, refusal: refusalAtShare},
	Level:   &Op{Verb: Retaking, Reads: true, Levels: true, Sides: true, mode: stay, carries: true, grouping: withReaders, decode: decodeShare, fence: decodeNumber, refusal: refusalAtShare},
	Extend:  &Op{Verb: Extending, Sides: true, mode: stay, carries: true, grouping: withReaders, decode: decodeShare, fence: decodeNumber},
	Release: &Op{Verb: Releasing, Sides: true, grouping: withReaders, decode: decodeRelease},
	Look:    &Op{Verb: Looking, Sides: true, encode: encodeLook, decode: decodeLook},
}

// SharedAgain is [Shared] for a caller that shares the key already. Nobody in line keeps the caller out, or
// the two would wait for each other.
var SharedAgain = func() *Kind {
	k, acquire := *Shared, *Shared.Acquire
	acquire.mode = stay
	k.Acquire, k.Passes = &acquire, true
	return &k
}()

// A conversion gives the key from one token of a lock to another: from Old or to Old.
var (
	// Downgrade makes the writer's token Old a reader's.
	Downgrade = &Op{Verb: Downgrading, Besides: lease.Frees, needs: needsShared, Sides: true, mode: turn, grouping: withReaders, decode: decodeShare}
	// Upgrade makes the only reader, Old, a writer.
	Upgrade = &Op{Verb: Upgrading, Besides: lease.Frees, needs: needsShared, Sides: true, encode: encodeRaise, decode: decodeRaise, fence: decodeFence, refusal: refusalAtRaise}
	// Revert takes away a writer's token while the lock goes on as the reader Old, which gets its place.
	Revert = &Op{Verb: Releasing, Besides: lease.Sets, Sides: true, mode: back, grouping: withReaders, decode: decodeRelease}
	// ReleaseBoth takes away a token of an ended lock, and its other token Old, which a late Revert may have
	// put there.
	ReleaseBoth = &Op{Verb: Releasing, Besides: lease.Frees, Sides: true, grouping: withReaders, decode: decodeRelease}
)

// The ways to share a key: see share.lua.
const (
	join = "join"
	stay = "stay"
	turn = "turn"
	back = "back"
)

// SharedValue is the value of a key with readers. To every client that takes it for a lock of its own kind
// it is somebody else's token.
const SharedValue = TokenMark + "shared"

// Sides are the keys beside a key that may be shared.
type Sides struct {
	Readers any // by their expiry
	Line    any // of waiters
}

// NewSides names them.
func NewSides(key string) *Sides {
	return &Sides{Beside(RoleReaders, key), Beside(RoleLine, key)}
}

// errNoScripts keeps a node from sharing keys.
var errNoScripts = fmt.Errorf("%w for shared locks: it runs no scripts, without which nobody shares keys", fault.ErrNode)

// compare orders the readers' parts of a batch: parts of one command become neighbours.
func compare(a, b *Part) int {
	return cmp.Or(
		strings.Compare(a.Key.(string), b.Key.(string)),
		strings.Compare(a.Op.mode, b.Op.mode),
		strings.Compare(a.TTL.(string), b.TTL.(string)),
		cmp.Compare(raises(a), raises(b)),
		cmp.Compare(flags(a), flags(b)),
		compareLines(a.joining(), b.joining()),
	)
}

// joining is the line that a part heeds; nil: none.
func (p *Part) joining() *Line {
	if p.Op.mode != join {
		return nil
	}
	return p.Line
}

// compareLines orders lines by their arguments for scripts.
func compareLines(a, b *Line) int {
	if a == b || a == nil || b == nil {
		return 0
	}
	return cmp.Or(
		cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Name, b.Name), cmp.Compare(boolean(a.Stays), boolean(b.Stays)),
		cmp.Compare(boolean(a.Under), boolean(b.Under)), slices.CompareFunc(a.Held, b.Held, func(a, b any) int { return strings.Compare(a.(string), b.(string)) }),
	)
}

// raises is the number to which a part raises the counter; 0: none.
func raises(p *Part) int64 {
	if p.Op.mode == join {
		return 0
	}
	return p.Fence.Number
}

// flags are the remaining differences between two commands.
func flags(p *Part) (sum int) {
	if p.Loud {
		sum++
	}
	if p.Old != nil {
		sum += 2
	}
	return sum
}

// run returns the first parts that go as one command. Parts with two tokens go alone.
func run(parts []*Part) []*Part {
	n := 1
	for n < min(len(parts), MaxGroup) && parts[0].Old == nil && compare(parts[0], parts[n]) == 0 {
		n++
	}
	return parts[:n]
}

// encodeReaders appends the commands of the readers' parts: one for equal parts of a key. Their order does
// not matter, for their tokens differ.
func (b *Batch) encodeReaders() {
	slices.SortStableFunc(b.Buffer.readers, compare)
	for rest := b.Buffer.readers; len(rest) > 0; {
		g := run(rest)
		rest = rest[len(g):]
		from := len(b.args)
		p, keys := g[0], 2
		if p.Op.mode == "" {
			b.encodeUnshare(g)
		} else {
			keys = b.encodeShare(g)
		}
		b.cmds = append(b.cmds, driver.Command{Args: b.args[from:], FirstKey: 3, Keys: keys})
		if b.readerReplies(p) > 1 {
			b.cmds = append(b.cmds, announcement(p, SharedNow))
		}
	}
}

// decodeShare reads whether a token shares the key now, or holds it alone.
func decodeShare(a *Ask, replies []driver.Reply) (Answer, error) {
	switch reply := replies[0]; {
	case reply.Kind == driver.Integer && reply.Int == 1:
		return Granted, nil
	case reply.Kind == driver.Integer && reply.Int == 0:
		return Taken, nil
	default:
		return Failed, forbidden(a, reply, acl.Shared)
	}
}

// decodeNumber reads the counter, or the floor above it, in a grant.
func decodeNumber(_ *Ask, replies []driver.Reply) (Answer, error) {
	if number, ok := score(replies[1]); !ok || number == 0 {
		return Failed, fenceRefused(replies[1])
	}
	return Granted, nil
}

// Number is the number in a grant.
func (p *Part) Number() int64 {
	number, _ := score(p.Reply[1])
	return number
}

// refusalAtShare reads who keeps a token out, a holder or a waiter, and for how long; and to join the line.
func refusalAtShare(p *Part) (r Refusal) {
	if len(p.Reply) < shareReplies {
		return r
	}
	r = p.named(p.Reply[2])
	if r.Left = TimeLeft(p.Reply[3]); p.Op.mode == join {
		r.InLine, r.First, r.Stands = true, p.Reply[4].Int == 0, true
		r.Clock = max(0, p.Reply[5].Int)
	}
	return r
}

// encodeRaise runs the script that makes a reader the writer.
func encodeRaise(a *Ask, m *Memory) []driver.Command {
	args := append(scripts.Raise.Call(m.args[:0], 2), a.Key, a.Sides.Readers, a.Old, a.Token, a.TTL)
	return append(m.cmds[:0], driver.Command{Args: args, FirstKey: 3, Keys: 2})
}

// decodeRaise reads whether the writer's token has the key.
func decodeRaise(a *Ask, replies []driver.Reply) (Answer, error) {
	if reply := replies[0]; reply.Kind == driver.Array && len(reply.Elems) > 0 {
		return decodeShare(a, reply.Elems)
	}
	return Failed, forbidden(a, replies[0], acl.Shared)
}

// refusalAtRaise reads who keeps the reader from becoming the writer, and for how long.
func refusalAtRaise(p *Part) (r Refusal) {
	if elems := p.Reply[0].Elems; len(elems) >= 3 {
		r = p.named(elems[1])
		r.Left = TimeLeft(elems[2])
	}
	return r
}

// encodeLook asks whether the key has readers, whether the token is among them, and whether its
// lease has ended.
func encodeLook(a *Ask, m *Memory) []driver.Command {
	return append(m.cmds[:0],
		driver.Command{Args: []any{"GET", a.Key}, FirstKey: 1, Keys: 1},
		driver.Command{Args: []any{"ZSCORE", a.Sides.Readers, a.Token}, FirstKey: 1, Keys: 1},
		AskTime)
}

func decodeLook(_ *Ask, replies []driver.Reply) (Answer, error) {
	value, expiry := replies[0], replies[1]
	ends, ok := score(expiry)
	now, told := ReadTime(replies[2])
	switch {
	case vacant(value):
		return Absent, nil
	case value.Kind == driver.String && value.Str != SharedValue:
		return Taken, nil
	case value.Kind == driver.String && expiry.Kind == driver.Nil:
		return Absent, nil
	case value.Kind != driver.String:
		return Failed, Unexpected(value)
	case !ok:
		return Failed, Unexpected(expiry)
	case !told:
		return Failed, Unexpected(replies[2])
	case ends < now.UnixMilli():
		return Absent, nil
	}
	return Granted, nil
}
