package protocol

import (
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// On the wire, a release is one of these:
//
//   - the release script, for up to 32 keys in one call. It deletes each key that holds its
//     token, and announces it on the key's channel if anybody listens at the node. The reply is
//     one bit for each deleted key, the number of listeners, and whether the user may publish.
//   - a command of the node that deletes a key if it holds a token ([Deletion]), for one key. The
//     batch announces it by PUBLISH behind the command, if anybody listened when the batch
//     before asked, or nobody has asked yet. As the script does, each batch asks who listens; if
//     that is somebody and nothing was announced, another batch with the announcements follows
//     at once.

// WakeChannel begins the names of the channels of announced releases. It is also a channel: its listeners
// tell nodes that somebody waits.
const WakeChannel = "ql:free:"

// askListeners asks how many listen at a node.
var askListeners = driver.Command{Args: []any{"PUBSUB", "NUMSUB", WakeChannel}}

// MaxGroup is how many releases, or extensions, go to a node as one command. It takes the server 60 % of the
// time of single commands, and a release three times as long as a SET. The answers are bits of one integer;
// from 16 on, larger groups gain nothing. Order among them does not matter, for their keys differ.
const MaxGroup = 32

// A Manner is how a node takes releases and extensions.
type Manner struct {
	Dialect
	Releases  int  // releases in a group
	Extends   int  // likewise
	Cluster   bool // a Redis Cluster, which cannot know whether anybody listens
	Muted     bool // announcements are refused
	Listeners bool // somebody may listen
}

// publishes reports whether announcements go behind releases. In a Cluster one might arrive before its
// release has run.
func (m *Manner) publishes() bool { return !m.Muted && !m.Cluster && m.Listeners }

// NewManner returns the manner of a node. Apart: several keys in one command are refused. The answers of a
// group do not tell of the single releases where a user may not touch one of the keys, where a key holds no
// lock, and on a Redis Cluster, where keys live on different servers.
func NewManner(d Dialect, cluster, muted, listeners, apart bool) Manner {
	if listeners && !cluster && !muted && !d.Scriptless {
		d.Deletes = ByScript // which keeps the key for the first in line
	}
	m := Manner{Dialect: d, Releases: MaxGroup, Extends: MaxGroup, Cluster: cluster, Muted: muted, Listeners: listeners}
	if apart || d.Deletes != ByScript {
		m.Releases = 1
	}
	if apart || d.Scriptless {
		m.Extends = 1
	}
	return m
}

// The replies of a node to one release.
var (
	notThere   = []driver.Reply{integer(0)}
	wasDeleted = []driver.Reply{integer(1)}
)

// encodeReleases appends the command that releases a group, and its announcement.
func (b *Batch) encodeReleases(g []*Part, loud bool) {
	from := len(b.args)
	if b.Deletes != ByScript { // a group of one: see [NewManner]
		p := g[0]
		b.args = b.Deletes.Encode(b.args, p.Key, p.Token)
		b.cmds = append(b.cmds, driver.Command{Args: b.args[from:], FirstKey: 1, Keys: 1})
		if loud && b.publishes() {
			b.cmds = append(b.cmds, announcement(p, ""))
		}
		return
	}
	b.args = scripts.Release.Call(b.args, len(g))
	for _, p := range g {
		b.args = append(b.args, p.Key)
	}
	for _, p := range g {
		b.args = append(b.args, p.Token)
	}
	if loud {
		b.args = append(b.args, WakeChannel) // the keys have their prefix
	}
	if loud && b.Cluster { // announced whether or not anybody listens
		b.args = append(b.args, "1")
	}
	b.cmds = append(b.cmds, driver.Command{Args: b.args[from:], FirstKey: 3, Keys: len(g)})
}

// releaseReplies is how many replies answer a group of releases.
func (b *Batch) releaseReplies(p *Part) int {
	if b.Deletes != ByScript && b.publishes() && p.Loud {
		return 2
	}
	return 1
}

// decodeReleases gives each part of the group its reply. False: the reply does not tell of the single parts.
func (b *Batch) decodeReleases(g []*Part, replies []driver.Reply) bool {
	if b.Deletes != ByScript {
		if replies != nil {
			b.notePublished(replies[1:])
			replies = b.Deletes.Decode(replies)
		}
		g[0].Reply = replies
		return true
	}
	for _, p := range g {
		p.Reply = replies
	}
	if replies == nil {
		return true
	}
	sum := replies[0]
	deleted, listeners, muted := announced(sum.Int)
	if sum.Kind == driver.Integer && g[0].Loud {
		b.News.count(listeners, muted)
	}
	return shareBits(g, sum.Kind == driver.Integer, deleted, notThere, wasDeleted)
}

// announced reads the sum of a script that announces releases: the bits of the tokens, how many listen, and
// whether the node's user may not publish.
func announced(sum int64) (bits, listeners int64, muted bool) {
	if muted = sum < 0; muted {
		sum = -1 - sum
	}
	return sum & (1<<32 - 1), sum >> 32, muted
}

// shareBits gives each part of a group its bit as a reply. False: there are none.
func shareBits(g []*Part, integer bool, bits int64, no, yes []driver.Reply) bool {
	if !integer || bits < 0 || bits >= 1<<len(g) {
		return len(g) == 1
	}
	for i, p := range g {
		p.Reply = no
		if bits>>i&1 == 1 {
			p.Reply = yes
		}
	}
	return true
}

// SharedNow is announced where readers may share the key from now on.
const SharedNow = "shared"

// announcement announces that the key of p is free, or shared. After a release that has deleted nothing a
// waiter tries once in vain.
func announcement(p *Part, what string) driver.Command {
	return driver.Command{Args: []any{"PUBLISH", WakeChannel + p.Key.(string), what}}
}

// asksListeners reports whether the batch asks for the number of listeners. In a Cluster nobody knows it.
func (b *Batch) asksListeners() bool { return b.Deletes != ByScript && b.loud > 0 && !b.Cluster }

// encodeAnnouncements appends the question for listeners, and the last batch's announcements.
func (b *Batch) encodeAnnouncements() {
	if b.asksListeners() {
		b.cmds = append(b.cmds, askListeners)
	}
	for _, p := range b.Unpublished {
		b.cmds = append(b.cmds, announcement(p, ""))
	}
}

// decodeAnnouncements reads the replies, and returns the releases of the batch that are to be announced now:
// those that deleted a key, or may have in an earlier sending. Where nobody tells the number of listeners,
// there is somebody.
func (b *Batch) decodeAnnouncements(next func(int) []driver.Reply) (unpublished []*Part) {
	listeners := int64(1)
	if b.asksListeners() {
		if replies := next(1); replies != nil && len(replies[0].Elems) == 2 {
			listeners = replies[0].Elems[1].Int
		}
	}
	for range b.Unpublished {
		b.notePublished(next(1))
	}
	if b.Deletes == ByScript || b.loud == 0 {
		return nil
	}
	b.News.count(listeners, false)
	if b.publishes() || listeners == 0 {
		return nil
	}
	for _, p := range b.Parts[len(b.Parts)-b.quiet-b.loud : len(b.Parts)-b.quiet] {
		if len(p.Reply) > 0 && p.Reply[0].Kind == driver.Integer && (p.Reply[0].Int == 1 || b.Last) {
			unpublished = append(unpublished, p)
		}
	}
	return unpublished
}

// notePublished notes whether an announcement was refused.
func (b *Batch) notePublished(replies []driver.Reply) {
	if len(replies) > 0 && Says(replies[0], "NOPERM") {
		b.News.Muted = true
	}
}

// holdsNoLock reports whether a node has refused a group because a key of it holds something else: other
// groups are not concerned.
func holdsNoLock(reply driver.Reply) bool {
	return reply.Kind == driver.Failure && strings.Contains(reply.Str, "WRONGTYPE")
}
