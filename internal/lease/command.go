package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// An Effect is what a command does to a token at its node, if the node does as asked.
type Effect uint8

// The effects.
const (
	Looks Effect = iota // none
	Sets                // the token is set, or prolonged
	Frees               // the token is taken away
)

// A Fate is the outcome of a command.
type Fate uint8

// The fates.
const (
	Unsent Fate = iota // the command will not run: it has not left
	Silent             // the command may run at any time, and no answer will come
	Unrun              // the node has refused to run the command
	Ran                // the node has run the command, and has told its findings
)

// Leaves reports whether a command of the round may leave for the node of the trace now, and notes that it
// does. Heard: somebody waits for the answers that the round still lacks. Teaches: the command is a script; sent
// before, for a carried round, it may leave again to teach the node. Spent: see [Hold.Deletable].
func (h *Hold) Leaves(r *Round, v *Vote, t *Trace, heard, teaches, spent bool, now clockdrift.Instant) bool {
	switch r.Does {
	case Frees:
		if t.Clean() || !h.Deletable(spent) {
			return false
		}
	case Sets:
		// Until its vote is counted the release stays behind the command in the key's queue, whatever ends the hold.
		// From then on the release may have left.
		again := teaches && v.Sent != 0 && r.Verdict == Carried
		if v.Answer != Pending || !h.MaySet(r, heard) && !again {
			return false
		}
		if h.phase == Asking && h.first == 0 {
			h.first = now
		}
		t.left(now)
	}
	if v.Sent == 0 {
		v.Sent = now
		v.Sees(t)
	}
	return true
}

// MaySet reports whether a command of the round, which may set the key, may leave now.
//
// A key without a hold must not be set: no command leaves for a hold that has ended. After a refusal,
// commands still leave to learn who holds the key; the release is behind them in the key's queue.
func (h *Hold) MaySet(r *Round, heard bool) bool {
	switch {
	case h.stopped, h.why == Released, h.why == Lost, h.why == Closed, r.Verdict == Dropped:
		return false
	case r.Verdict == Undecided:
		return true
	case r.superseded:
		return false
	case r.Verdict == Carried, r.Verdict == Outranked && h.phase != Over:
		return true
	}
	return heard
}

// Answered notes the fate of a command that has left. Whether the answer is a vote as well is another
// question.
//
// A deletion of the user's own token does not tell who had set it: another attempt may have.
func (h *Hold) Answered(r *Round, v *Vote, t *Trace, fate Fate, a Answer, now clockdrift.Instant) {
	if fate == Ran {
		t.heard(v.seen, now)
	}
	switch {
	case r.Does == Sets && fate == Silent:
		t.missed(now)
	case r.Does == Sets:
		t.known(a == Granted || a == Outbid, now)
	case r.Does == Frees && fate == Ran && a != Failed:
		t.freed(a == Granted && !h.own, v.seen)
	}
}

// LeavesBeside is [Hold.Leaves] for the other token of a conversion's command. A command that makes a token
// into the other one does not leave once the lock of the other one is over.
func (h *Hold) LeavesBeside(does Effect, v *Vote, t *Trace, lease time.Duration, now clockdrift.Instant) bool {
	if does == Sets {
		if h.Ended() {
			return false
		}
		t.left(now)
		h.Asks(lease)
		h.excess = true
	}
	v.besides = t.news
	return true
}

// AnsweredBeside is [Hold.Answered] for the other token. Done: the node has done its part.
func (h *Hold) AnsweredBeside(does Effect, v *Vote, t *Trace, fate Fate, done bool, now clockdrift.Instant) {
	switch {
	case does == Sets && fate == Silent:
		t.missed(now)
	case does == Sets:
		t.known(done, now)
	case does == Frees && done:
		t.freed(false, v.besides)
	}
}

// Deletable reports whether the token may be deleted. A token of the user's own may be deleted only after
// the release of a held lock: then the token is spent. Until then a retry may have it: a token set by a
// failed try or a late extension belongs to the retry, or to the TTL.
func (h *Hold) Deletable(spent bool) bool { return !h.own || spent }

// Remains reports whether the token may be at the node still, or come there, and is to be deleted.
func (h *Hold) Remains(t *Trace, spent bool, now clockdrift.Instant) bool {
	t.expire(now, h.Expires())
	if !h.Deletable(spent) {
		t.Forget()
	}
	return !t.Clean()
}

// A Way is how the token of an ended hold is taken away.
type Way uint8

// The ways.
const (
	Alone    Way = iota // the token is deleted
	ForOther            // the token becomes the token of the lock's next hold, for it may be what keeps others out there
	Both                // both tokens are deleted: the one may have become the other late
)

// Leaving is the way in which the token is taken away. Converted: the lock went on with another token, or
// was to. Ended: the lock is over.
func Leaving(converted, ended bool) Way {
	switch {
	case !converted:
		return Alone
	case ended:
		return Both
	}
	return ForOther
}

// Ended reports whether the hold has begun and is over, and its key is not left to the TTL.
func (h *Hold) Ended() bool { return h.phase == Over && h.why != Abandoned && h.until != 0 }
