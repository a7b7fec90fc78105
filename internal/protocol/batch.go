package protocol

import (
	"slices"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// News are what the replies to a sending tell of a node besides its answers.
type News struct {
	Counted    bool  // the node has told the number of listeners
	Listeners  int64 // if Counted
	Muted      bool  // the node's user may not publish
	Apart      bool  // the node refuses several keys in one command
	Lineless   bool  // the node's user may not look at lines
	NoDeletion bool  // the node no longer knows its command for deletions
}

// count notes how many listen, and whether an announcement was refused.
func (n *News) count(listeners int64, muted bool) {
	n.Counted, n.Listeners, n.Muted = true, listeners, n.Muted || muted
}

// A Batch is a sending to a node: first the parts with commands of their own, then extensions, loud releases
// and quiet ones, which go in groups.
type Batch struct {
	Manner
	Source      bool    // scripts go with their source
	Last        bool    // some of it was sent before: its releases may have deleted then
	Unpublished []*Part // the last batch's releases that are to be announced
	Parts       []*Part // those of this sending, in the order of their commands
	News        News    // in the replies to the last sending

	*Buffer
	readers, extensions, loud, quiet int // numbers of parts, at the end of Parts
}

// A Buffer is the memory that a batch leaves to the next batch.
type Buffer struct {
	cmds                             []driver.Command
	args                             []any // of cmds
	parts                            []*Part
	readers, extensions, loud, quiet []*Part
}

// Clear forgets the last batch's parts, whose locks would live on.
func (m *Buffer) Clear() {
	clear(m.cmds)
	clear(m.args)
	clear(m.parts)
	clear(m.readers)
	clear(m.extensions)
	clear(m.loud)
	clear(m.quiet)
}

// Drop gives up the memory of commands that a driver may still read.
func (m *Buffer) Drop() { m.cmds, m.args = nil, nil }

// NewBatch returns an empty batch.
func NewBatch(manner Manner, m *Buffer) Batch { return Batch{Manner: manner, Buffer: m} }

// Begin makes the batch empty, for a sending with these parts.
func (b *Batch) Begin() {
	m := b.Buffer
	m.cmds, m.args, m.parts = m.cmds[:0], m.args[:0], m.parts[:0]
	m.readers, m.extensions, m.loud, m.quiet = m.readers[:0], m.extensions[:0], m.loud[:0], m.quiet[:0]
}

// Add takes a part in.
func (b *Batch) Add(p *Part) {
	m := b.Buffer
	switch {
	case p.Op.grouping == withReleases && p.Loud && !b.Muted:
		m.loud = append(m.loud, p)
	case p.Op.grouping == withReleases:
		m.quiet = append(m.quiet, p)
	case p.Op.grouping == withExtensions && p.Fence.Number == 0 && b.Extends > 1:
		// A part with a fence has commands of its own behind it, outside of the script.
		m.extensions = append(m.extensions, p)
	case p.Op.grouping == withReaders:
		m.readers = append(m.readers, p)
	default:
		m.parts = append(m.parts, p)
	}
}

// Encode writes the commands of all added parts.
func (b *Batch) Encode() []driver.Command {
	m := b.Buffer
	for _, p := range m.parts {
		b.encodeAlone(p)
	}
	b.readers, b.extensions, b.loud, b.quiet = len(m.readers), len(m.extensions), len(m.loud), len(m.quiet)
	b.encodeReaders()
	for g := range slices.Chunk(m.extensions, b.Extends) {
		b.encodeExtensions(g)
	}
	for g := range slices.Chunk(m.loud, b.Releases) {
		b.encodeReleases(g, true)
	}
	for g := range slices.Chunk(m.quiet, b.Releases) {
		b.encodeReleases(g, false)
	}
	m.parts = append(append(append(append(m.parts, m.readers...), m.extensions...), m.loud...), m.quiet...)
	b.Parts = m.parts
	b.encodeAnnouncements()
	if b.Source {
		for i := range b.cmds {
			b.cmds[i] = scripts.WithSource(b.cmds[i])
		}
	}
	return b.cmds
}

// Keep keeps the memory of commands that were appended to those of [Batch.Encode].
func (b *Batch) Keep(cmds []driver.Command) { b.cmds = cmds }

// encodeAlone appends the commands of a part outside of all groups.
func (b *Batch) encodeAlone(p *Part) {
	switch {
	case b.substitutes(p):
		b.cmds = b.hold(b.cmds, p)
	case b.releasesApart(p):
		b.cmds = append(b.cmds, p.releases(1)...)
	case b.callsNextApart(p):
		b.cmds = append(b.cmds, p.apart()...)
	case b.Cluster && p.Op.Tries && p.Op.encode != nil && p.Line != nil && len(p.Line.Held) > 0:
		b.cmds = append(b.cmds, p.onCluster()...)
	default:
		b.cmds = append(b.cmds, p.Cmds...)
	}
}

// encodeExtensions appends the command that prolongs the leases of a group.
func (b *Batch) encodeExtensions(g []*Part) {
	if len(g) == 1 {
		b.encodeAlone(g[0])
		return
	}
	from := len(b.args)
	b.args = scripts.Extend.Call(b.args, len(g))
	for _, p := range g {
		b.args = append(b.args, p.Key)
	}
	for _, p := range g {
		b.args = append(b.args, p.Token)
	}
	for _, p := range g {
		b.args = append(b.args, p.TTL)
	}
	b.cmds = append(b.cmds, driver.Command{Args: b.args[from:], FirstKey: 3, Keys: len(g)})
}

// The replies of a node to one of a group of extensions.
var (
	heldByAnother = []driver.Reply{integer(0)}
	prolonged     = []driver.Reply{integer(1)}
)

// Decode gives the parts their replies, nil where unknown, and hands each part on, with whether it is to be
// sent again. Broken: parts without a reply may be sent again.
//
// Again is empty if nothing is left to do.
func (b *Batch) Decode(replies []driver.Reply, broken bool, on func(p *Part, again bool)) (again Batch) {
	again = Batch{Manner: b.Manner, Source: b.Source, Last: b.Last || broken, Buffer: b.Buffer}
	b.News = News{}
	next := func(count int) (said []driver.Reply) {
		if len(replies) < count {
			replies = nil // the rest is unknown
			return nil
		}
		said, replies = replies[:count], replies[count:]
		return said
	}
	for rest := b.Parts; len(rest) > 0; {
		g := b.front(rest)
		rest = rest[len(g):]
		said := next(b.replies(g))
		repeat := broken && said == nil && !g[0].Op.Once
		if LacksScript(said) && !b.Source {
			repeat, again.Source = true, true
		}
		if g[0].Op.grouping == withReleases && b.Deletes.disowned(said) {
			repeat, again.Deletes = true, ByScript
			b.News.NoDeletion = true
		}
		if b.forbidsLine(g[0], said) {
			repeat, again.Lineless = true, true
			b.News.Lineless = true
		}
		whole, more := b.decodeGroup(g, said)
		if !whole && !repeat {
			again.Releases, again.Extends = 1, 1
			if !holdsNoLock(said[0]) {
				b.News.Apart = true
			}
		}
		for _, p := range g {
			on(p, repeat || more || !whole)
		}
	}
	again.Unpublished = b.decodeAnnouncements(next)
	again.News = b.News
	if broken && len(replies) == 0 {
		again.Unpublished = append(again.Unpublished, b.Unpublished...)
	}
	return again
}

// decodeGroup gives the parts of a group their replies. Whole: the replies tell of the single parts. More:
// the part is to be sent once more, as [Dialect.hold] has it.
func (b *Batch) decodeGroup(g []*Part, said []driver.Reply) (whole, more bool) {
	p := g[0]
	switch {
	case p.Op.grouping == withReleases:
		return b.decodeReleases(g, said), false
	case p.Op.grouping == withReaders:
		b.decodeReaders(g, said)
		return true, false
	case len(g) > 1:
		for _, p := range g {
			p.Reply = said
		}
		return said == nil || shareBits(g, said[0].Kind == driver.Integer, said[0].Int, heldByAnother, prolonged), false
	case said != nil && b.releasesApart(p):
		said = gathered(said)
	case said != nil && b.substitutes(p):
		if said, more = b.decodeHold(p, said); more {
			p.half = &half{replies: said}
		}
	}
	p.Reply = said
	return true, more
}

// front returns the first parts of rest that share replies. Rest is the undecoded end of the batch's parts.
func (b *Batch) front(rest []*Part) []*Part {
	switch releases := b.loud + b.quiet; {
	case len(rest) > b.readers+b.extensions+releases:
		return rest[:1]
	case len(rest) > b.extensions+releases:
		return run(rest[:len(rest)-b.extensions-releases])
	case len(rest) > releases:
		return rest[:min(b.Extends, len(rest)-releases)]
	case len(rest) > b.quiet:
		return rest[:min(b.Releases, len(rest)-b.quiet)]
	}
	return rest[:min(b.Releases, len(rest))]
}

// replies is how many replies are those of the group.
func (b *Batch) replies(g []*Part) int {
	p := g[0]
	switch {
	case p.Op.grouping == withReleases:
		return b.releaseReplies(p)
	case p.Op.grouping == withReaders:
		return b.readerReplies(p)
	case len(g) > 1:
		return 1
	case b.substitutes(p):
		return b.holdReplies(p)
	case b.releasesApart(p):
		return len(p.Many.keys)
	case b.callsNextApart(p):
		return 2
	}
	return len(p.Cmds)
}
