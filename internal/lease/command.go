package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// An Effect is what a command does to a token at its node, if it does what it asks for.
type Effect uint8

// The effects.
const (
	Looks Effect = iota // none
	Sets                // it sets the token, or prolongs it
	Frees               // it takes the token away
)

// A Fate is what became of a command.
type Fate uint8

// The fates.
const (
	Unsent Fate = iota // it will not run: it has not left
	Silent             // it may run at any time, and no answer will come
	Unrun              // the node has refused to run it
	Ran                // the node has run it, and has told what it found
)

// Leaves reports whether a command of the round may leave for the node of the trace now, and notes that it does. Heard:
// somebody waits for the answers that the round still lacks. Again: it is the second sending of a command, which teaches
// the node a script; it may leave although the hold has ended meanwhile, as the release is behind it in the key's queue.
// Spent: see [Hold.Deletable].
func (h *Hold) Leaves(r *Round, v *Vote, t *Trace, heard, again, spent bool, now clockdrift.Instant) bool {
	switch r.Does {
	case Frees:
		if t.Clean() || !h.Deletable(spent) {
			return false
		}
	case Sets:
		if !h.MaySet(r, heard) && !again {
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
// A key that nobody holds must not be set: nothing leaves for a hold that has ended. What leaves for one that was
// refused tells who has the key; the release of that one is behind it in the key's queue.
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

// Answered notes what became of a command that has left. Whether it is a vote as well is another question.
//
// That a token of the user's own was deleted says nothing of who had set it: another attempt may have.
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

// LeavesBeside is [Hold.Leaves] of the other token that a command of a conversion has this effect on. What makes a
// token into the other one does not leave once the lock is over that went on with that.
func (h *Hold) LeavesBeside(does Effect, v *Vote, t *Trace, lease time.Duration, now clockdrift.Instant) bool {
	if does == Sets {
		if h.Ended() {
			return false
		}
		t.left(now)
		h.Asks(lease)
	}
	v.besides = t.news
	return true
}

// AnsweredBeside is [Hold.Answered] of the other token. Done: the node has done what was asked for.
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

// Deletable reports whether the token may be deleted. A token of the user's own may only after the release of a lock
// that was held, when it is spent. Until then a retry may have it: what a try that has failed, or a late extension, has
// set belongs to the retry, or to the TTL.
func (h *Hold) Deletable(spent bool) bool { return !h.own || spent }

// Remains reports whether the token may be at the node still, or come there, and is to be deleted.
func (h *Hold) Remains(t *Trace, spent bool, now clockdrift.Instant) bool {
	t.expire(now, h.Expires())
	if !h.Deletable(spent) {
		t.Forget()
	}
	return !t.Clean()
}

// A Way is how a token is taken away that a hold which is over has left.
type Way uint8

// The ways.
const (
	Alone    Way = iota // it is deleted
	ForOther            // it is made the token with which the lock goes on, for it may be what keeps others out there
	Both                // both are deleted: one may have been made the other late
)

// Leaving is the way in which the token is taken away. Converted: the lock went on with another one, or was to, which
// Ended now.
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
