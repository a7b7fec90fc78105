package protocol

import (
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// encodeShare appends the call that lets a group of tokens share their key.
func (b *Batch) encodeShare(g []*Part) (keys int) {
	p := g[0]
	named := append(make([]any, 0, 8), p.Key, p.Sides.Readers)
	if p.Op.mode == join {
		named = append(named, p.Sides.Line)
	}
	if p.Fence.Number != 0 {
		named = append(named, p.Fence.Set)
	}
	if line := p.joining(); line != nil && b.Cluster {
		named = append(named, line.near(p.Key)...)
	} else if line != nil {
		named = append(named, line.Held...)
	}
	b.args = append(scripts.Share.Call(b.args, len(named)), named...)
	greatest := int64(0)
	for _, p := range g {
		greatest = max(greatest, p.Fence.Number)
	}
	b.args = append(b.args, p.TTL, p.Op.mode, strconv.FormatInt(greatest, 10))
	if line := p.joining(); line != nil {
		b.args = append(append(b.args, line.args()...), bit(line.Under))
	}
	switch p.Op.mode {
	case turn:
		b.args = append(b.args, p.Token, p.Old)
	case back:
		b.args = append(b.args, p.Old, p.Token)
	default:
		for _, p := range g {
			b.args = append(b.args, p.Token)
		}
	}
	return len(named)
}

// encodeUnshare appends the call that takes a group of tokens off their key.
func (b *Batch) encodeUnshare(g []*Part) {
	p := g[0]
	b.args = append(scripts.Unshare.Call(b.args, 2), p.Key, p.Sides.Readers)
	if p.Old != nil {
		b.args = append(b.args, "2", p.Token, p.Old)
	} else {
		b.args = append(b.args, strconv.Itoa(len(g)))
		for _, p := range g {
			b.args = append(b.args, p.Token)
		}
	}
	if p.Loud && !b.Muted {
		b.args = append(b.args, WakeChannel)
		if b.Cluster {
			b.args = append(b.args, "1")
		}
	}
}

// readerReplies is how many replies answer the command of a group of readers. A downgrade is announced, and
// so is the end of an upgrade that others took for a holder: readers may share the key then. Not in a
// Cluster: see [Manner.publishes].
func (b *Batch) readerReplies(p *Part) int {
	if (p.Op.mode == turn || p.Op.mode == back && p.Loud) && !b.Muted && !b.Cluster {
		return 2
	}
	return 1
}

// decodeReaders gives each part of the group its reply: whether the token shares the key, or had it, and the
// script's news of the key.
func (b *Batch) decodeReaders(g []*Part, replies []driver.Reply) {
	for _, p := range g {
		p.Reply = replies
	}
	if replies == nil {
		return
	}
	sum := replies[0]
	if g[0].Op.mode == "" {
		b.decodeUnshare(g, sum)
		return
	}
	b.notePublished(replies[1:])
	if sum.Kind != driver.Array || len(sum.Elems) != shareReplies || sum.Elems[0].Kind != driver.Integer {
		if sum.Kind == driver.Integer {
			sum.Kind = driver.Array // or it would be taken for the answer to one token
		}
		for _, p := range g {
			p.Reply = []driver.Reply{sum}
		}
		return
	}
	no := append([]driver.Reply{integer(0)}, sum.Elems[1:]...)
	yes := append([]driver.Reply{integer(1)}, sum.Elems[1:]...)
	shareBits(g, true, sum.Elems[0].Int, no, yes)
}

// shareReplies is the number of elements in the reply of the script that shares a key.
const shareReplies = 6

func (b *Batch) decodeUnshare(g []*Part, sum driver.Reply) {
	bits := sum.Int
	if g[0].Loud && !b.Muted && sum.Kind == driver.Integer {
		told, listeners, muted := announced(bits)
		b.News.count(listeners, muted)
		bits = told
	}
	if g[0].Old != nil && sum.Kind == driver.Integer {
		bits &= 1 // of the part's token
	}
	shareBits(g, sum.Kind == driver.Integer, bits, notThere, wasDeleted)
}
