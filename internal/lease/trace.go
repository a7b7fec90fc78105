package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// Trace is what is known of one token at one node. The zero Trace is clean: the token is not at the node, and no
// command is under way that may set it.
//
// Answers come in any order, not in that in which the node ran the commands. A server that was stopped may run a
// command long after the client has given up on the answer, behind a later release of the same token. So a trace that
// is not clean becomes clean by one of these only:
//
//   - every setting command has its answer, and a release that left behind the last grant says that the token is gone;
//   - a release deleted the token, and only one setting command can have set it;
//   - every setting command has its answer, and the last grant is older than the longest lease;
//   - the setting commands without an answer are lost, and the node has answered, one longest lease ago, a command that
//     left behind the last loss: what the server had in its buffers has run by then, and has expired.
//
// That holds because no setting command leaves behind a release. "A command left behind the grant" is told by news, and
// not by times: a clock may stand still between the two.
type Trace struct {
	sets    uint32             // setting commands that have set the token, or may have
	open    uint32             // of sets: they left and have no answer
	lost    uint32             // of open: no answer will come
	there   bool               // a grant is known, and nothing behind it that ended the grant
	asked   int32              // commands that may set the token, are asked for, and have no vote yet: some may not have left
	news    uint32             // counts grants and losses
	since   clockdrift.Instant // when a setting command last left, was granted or was lost
	replied clockdrift.Instant // when the node first answered a command that left behind the last loss; 0: not yet
}

// Clean reports whether the token is not at the node, and no command can set it.
func (t *Trace) Clean() bool { return t.asked == 0 && !t.Has() }

// Has reports whether the node has the token, or a command is under way that can set it there.
func (t *Trace) Has() bool { return t.there || t.open > 0 }

// Gone reports whether the node says that the token is not there. A lost command may still set it.
func (t *Trace) Gone() bool { return t.asked == 0 && !t.there && (t.open == 0 || t.replied != 0) }

// Asks notes that a round asks for a command that may set the token. See Votes for its end.
func (t *Trace) Asks() { t.asked++ }

// Votes notes that the answer of such a command was counted.
func (t *Trace) Votes() { t.asked-- }

// Asked reports whether such commands have no vote yet.
func (t *Trace) Asked() bool { return t.asked > 0 }

// left notes that a setting command is about to leave.
func (t *Trace) left(now clockdrift.Instant) {
	t.sets++
	t.open++
	t.since = now
}

// known notes the answer of a setting command: the token was set, or not.
func (t *Trace) known(set bool, now clockdrift.Instant) {
	t.open = max(t.lost, t.open-min(1, t.open)) // 0: a release deleted the token before the answer of its setting was read
	if set {
		t.there, t.since = true, now
		t.news++
	} else {
		t.sets -= min(1, t.sets)
	}
}

// missed notes that a setting command left, and that no answer will come.
func (t *Trace) missed(now clockdrift.Instant) {
	t.lost = min(t.lost+1, t.open)
	t.since, t.replied = now, 0
	t.news++
}

// heard notes that the node has answered a command which left at this news.
func (t *Trace) heard(seen uint32, now clockdrift.Instant) {
	if t.lost > 0 && t.replied == 0 && seen == t.news {
		t.replied = now
	}
}

// freed notes the answer of a command which left at this news and deletes the token.
func (t *Trace) freed(deleted bool, seen uint32) {
	switch {
	case deleted && t.sets == 1: // the only setting command had set the deleted token
		t.Forget()
	case seen == t.news:
		t.there = false
	}
}

// expire forgets expired tokens. Longest is the time from setting to expiry: the longest lease and the
// allowance for a node whose clock is slow.
func (t *Trace) expire(now clockdrift.Instant, longest time.Duration) {
	if now >= t.since.Add(longest) {
		t.there = false
	}
	if t.lost > 0 && t.replied != 0 && now >= t.replied.Add(longest) {
		t.open, t.lost = t.open-t.lost, 0
	}
}

// Forget leaves the token at the node to its TTL.
func (t *Trace) Forget() {
	t.open, t.lost, t.there = 0, 0, false
}
