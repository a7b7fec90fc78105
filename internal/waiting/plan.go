package waiting

import (
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// An intent is when to try next, and what that comes of.
type intent struct {
	due       clockdrift.Instant // when to try, if nothing happens before
	polls     int                // since the holder was last seen to change
	splits    int                // tries in a row that nobody may have won
	selfWoken bool               // what is announced is that the last try's own keys are gone
	seen      string
	last      error   // of the last try that was decided
	outlook   Outlook // what that means
}

// plan says when to try again after a try that has failed.
func (w *Waiter) plan(failed Attempt) {
	try := failed.Found()
	token := try.Holder
	w.crowds(&try)
	watches, local, first := w.Lines.failed(w, token, w.last)
	if first {
		w.lead()
	}
	w.selfWoken = try.SelfWoken
	now := w.Host.Now()
	if w.tried != 0 {
		w.calm = now.Add(min(calmness*now.Sub(w.tried), now.Sub(w.Began)/4))
	}
	if token != w.seen {
		w.seen, w.polls = token, 0
	}
	switch free := watches.found(&try); {
	case local && !w.Options.Fair:
		if w.due = 0; w.Ticketed || w.isSet() { // a lock of this Locker: see look
			w.due = w.again()
		}
	case !w.Ticketed && (w.Options.Fair || w.crowded) && w.outlook.Taken && w.rushes < 3:
		w.due = 0 // its ticket is nowhere yet
		w.rushes++
	case w.outlook.Taken && (w.Options.Fair && !watches.first() || w.isSet() && token != "" && !free && watches.quorate()):
		w.due = w.again() // until it is told that it is its turn, or that a key is free, or one before rests
		if ends := try.Frees; ends != 0 {
			if w.atRest = !w.atRest || w.calm <= ends; !w.atRest {
				ends = w.calm // that try learns when the next rest is
			}
			w.due = min(w.due, ends)
		}
	case !w.outlook.Taken:
		w.due = now.Add(w.poll())
	case token == "" || free:
		w.due = now.Add(splitBackoff(w.Host, w.splits))
		w.splits++
	default:
		w.splits = 0
		w.due = now.Add(w.poll())
		switch expires := try.Frees; {
		case expires == 0:
		case expires < w.due:
			w.due = expires
		case protocol.Marked(token) && watches.quorate():
			w.due = min(expires, relyUntil(w.Host, now))
		}
	}
	again := clockdrift.Instant(math.MaxInt64)
	switch {
	case w.Options.Fair || w.Ticketed:
		again = w.again()
	case w.Options.Name != "" && !w.Stays && (!local || w.isSet()):
		again = w.ripe()
	}
	switch {
	case !first:
		w.due = 0 // it tries when its turn comes, by what it finds then
	case again < w.due:
		w.due = again
	}
}

// calmness is so many times as long as its last try took a set leaves to others before it tries
// again because those before it rest: where the nodes have much to do, many that try at each rest
// would be what they have to do.
const calmness = 64

// firstOnly reports whether it tries only where it is first in line: the nodes tell it so. Where some
// keep no lines, a waiter for a plain lock tries wherever the key is free.
func (w *Waiter) firstOnly() bool {
	return w.Options.Fair || w.Options.Ages && !w.isSet() && w.Host.KeepLines()
}

// From which age on a waiter leaves its ticket, and keeps others off.
const (
	setAge = 100 * time.Millisecond
	// permitAge is that of waiters for one permit, from when they are the first here. Permits that
	// many wait for go from hand to hand faster than by the nodes, so one that chance serves soon
	// leaves none.
	permitAge = time.Second
)

// stays reports whether its next try leaves its ticket at the nodes, where it is until the wait is
// over.
func (w *Waiter) stays() bool {
	return w.Ticketed || w.Options.Fair || w.crowded || w.Options.Name != "" && w.Host.Now() >= w.ripe()
}

// lead notes when it came to be the first in its line.
func (w *Waiter) lead() {
	if w.leads == 0 {
		w.leads = w.Host.Now()
	}
}

// ripe is from when on it leaves its ticket though it has met none.
func (w *Waiter) ripe() clockdrift.Instant {
	switch {
	case w.Options.Ages:
		return w.Began.Add(setAge)
	case !w.Options.Several || w.leads == 0:
		return math.MaxInt64
	case w.outranked:
		return w.leads.Add(setAge)
	}
	return w.leads.Add(permitAge)
}

// crowds notes whether other tickets are in line, or a writer finds readers, which have to be told
// that it waits.
func (w *Waiter) crowds(try *quorum.Found) {
	w.outranked = try.Outranked
	young := (w.Options.Ages || w.Options.Several) && w.Host.Now() < w.ripe()
	w.crowded = w.Options.Name != "" && (w.outranked && !young || !w.Joins && try.Readers)
}

func (w *Waiter) age() time.Duration { return w.Host.Now().Sub(w.Began) }

// Crowded reports whether other tickets were in line at its last try, or readers had the key.
func (w *Waiter) Crowded() bool { return w.crowded }

// lineRank is its rank in the lines where it may have a ticket; 0: nowhere.
func (w *Waiter) lineRank() int64 {
	if w.Ticketed || w.stays() && !w.Options.Ages {
		return w.Host.Rank(w)
	}
	return 0
}

// place is the rank at which one that takes turns is to stand in line; 0: w does not.
func (w *Waiter) place() int64 {
	if w.Options.Fair {
		return w.Host.Rank(w)
	}
	return 0
}

// again is when to leave the ticket anew.
func (w *Waiter) again() clockdrift.Instant {
	return w.Host.Now().Add(ticketPeriod/2 + w.Host.Jitter(ticketPeriod/2))
}

// poll is the pause to the next try if nothing is announced before.
func (w *Waiter) poll() time.Duration {
	w.polls++
	return w.Options.backoff(w.Host, w.polls-1)
}
