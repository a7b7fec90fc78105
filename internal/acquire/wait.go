package acquire

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A Manner is how an acquire waits.
type Manner struct {
	// Several: the key has several slots, which are held side by side. A lock of this Locker is not all that
	// the first waiter waits for, and a released slot goes to the next waiter while the first asks the
	// nodes.
	Several bool
	// Name is the Locker's name in the key's line at the nodes; "": this process leaves no ticket there.
	Name string
	// Fair: the second try leaves a ticket, while the waiter is the first here. The nodes say who is next,
	// not chance. Other waiters leave a ticket where there are tickets, or readers.
	Fair                   bool
	Ages                   bool // a ticket is left from [Age] on, at the earliest where others listen
	Joins                  bool // others that join may have the key at the same time
	Wants                  int  // keys or permits of a set; 0: a single one
	Most                   int  // a waiter that wants more waits for the caller
	MaxWait                time.Duration
	BackoffMin, BackoffMax time.Duration
	Outage                 time.Duration // how long to go on without a quorum
}

// An Outlook is the meaning of a failed try for a waiter.
type Outlook struct {
	Taken   bool // others hold the key, or have parts of the votes
	Quorum  bool // a quorum is there, if not at once
	Waiting bool // a later try may do better by itself
}

// A Phase is what a waiter waits for since its last try. In each phase the waiter tries before if the key is
// announced free, and once the waiters of its process before it are gone.
type Phase uint8

// The phases.
const (
	Turn   Phase = iota // another waiter of the process is first: no try before it is gone
	Owner               // a lock of its own Locker has the key, and is handed over as a rule
	Ticket              // a try to leave the ticket, at once, or when announcements begin to arrive
	Told                // the nodes tell when its turn comes: a try when the ticket is due to be left anew
	Rest                // the same, or until a ticket before its own rests
	Quorum              // too many nodes do not answer, or have no vote
	Split               // the votes were split, or the key is free by now
	Holder              // another token has the key: a try at its expiry, or in case the announcement gets lost
	phases              // the number of phases
)

// A Plan is when a waiter tries next, and why.
type Plan struct {
	Phase  Phase
	Due    clockdrift.Instant // the next try, if nothing happens before; 0: as soon as nothing in this process is in its way
	Deaf   bool               // announcements are no news: they are about the last try's own keys, or nobody holds the key
	Token  string             // the holder at the last try
	Taken  bool               // others held the key, or had parts of the votes
	polls  int                // since the holder was last seen to change
	splits int                // tries in a row that nobody may have won
}

// Waiting is the findings of a waiter's tries, and its plan.
type Waiting struct {
	Manner
	Plan
	Began     clockdrift.Instant
	Tries     int
	Tried     clockdrift.Instant // when its last try began; 0: there was none in line
	Leads     clockdrift.Instant // since when the waiter is the first of its process; 0: it is not
	Outranked bool               // at its last try other tickets were in line
	Crowded   bool               // Outranked, and old enough to leave a ticket; or readers had the key
	Calm      clockdrift.Instant // until then no rest of those before lets a set try
	Quiet     bool               // its next try leaves the ticket for [QuietLife]: the last one was first in line, and hears of the holder's release
	outage    clockdrift.Instant // since when no quorum answers; 0: one did, the last time
}

// IsSet reports whether several keys or permits are wanted.
func (w *Waiting) IsSet() bool { return w.Wants > 0 }

// Left is how much of the longest wait is left.
func (w *Waiting) Left(now clockdrift.Instant) time.Duration { return w.MaxWait - now.Sub(w.Began) }

// Over notes a failed try's outlook, and reports whether the waiting ends.
func (w *Waiting) Over(o Outlook, now clockdrift.Instant) bool {
	w.Taken = o.Taken
	switch {
	case o.Quorum:
		w.outage = 0
	case w.outage == 0:
		w.outage = now
	}
	return !o.Waiting || w.Left(now) <= 0 || !o.Quorum && now.Sub(w.outage) >= w.Outage
}

// The ages from which a waiter leaves its ticket, and keeps others off.
const (
	Age = 100 * time.Millisecond
	// permitAge is the age for one permit, from when the waiter is the first here. Permits that many wait
	// for go from hand to hand faster than by the nodes: a waiter that is served soon leaves no ticket.
	permitAge = time.Second
)

// never is after everything.
const never = clockdrift.Instant(1<<63 - 1)

// ripe is when the waiter leaves its ticket without having met another.
func (w *Waiting) ripe() clockdrift.Instant {
	switch {
	case w.Ages:
		return w.Began.Add(Age)
	case !w.Several || w.Leads == 0:
		return never
	case w.Outranked:
		return w.Leads.Add(Age)
	}
	return w.Leads.Add(permitAge)
}

// Stands reports whether a try leaves a ticket at the nodes, for a waiter without one.
func (w *Waiting) Stands(now clockdrift.Instant) bool {
	return w.Fair || w.Crowded || w.Name != "" && now >= w.ripe()
}

// Met notes whether other tickets are in line, or a writer finds readers, which have to be told of the
// writer.
func (w *Waiting) Met(found *Found, now clockdrift.Instant) {
	w.Outranked = found.Outranked
	young := (w.Several || w.IsSet()) && now < w.ripe()
	w.Crowded = w.Name != "" && (w.Outranked && !young || !w.Joins && found.Readers)
}

// First notes when the waiter came to be the first of its process.
func (w *Waiting) First(now clockdrift.Instant) {
	if w.Leads == 0 {
		w.Leads = now
	}
}

// A Position is how a waiter stands after a failed try.
type Position struct {
	First  bool // of its process
	Local  bool // a lock of its own Locker has the key
	Stays  bool // the try was to leave its ticket
	Left   bool // the try had a rank; without a rank no ticket is left
	Ranked bool // the waiter has a rank by now
	Stood  bool // nodes have its ticket
	Turn   bool // no ticket is before its own at a quorum
	Free   bool // a key is free at a quorum
	Hears  bool // the waiter would be told
}

// Failed makes the plan after a failed try, at this distance of the nodes. Jitter is a random time below its
// bound.
func (w *Waiting) Failed(found *Found, at Position, trip time.Duration, jitter func(bound time.Duration) time.Duration, now clockdrift.Instant) {
	if at.First {
		w.First(now)
	}
	if w.Tried != 0 {
		w.Calm = now.Add(min(calmness*now.Sub(w.Tried), now.Sub(w.Began)/4))
	}
	if found.Holder != w.Token {
		w.Token, w.polls = found.Holder, 0
	}
	w.Deaf = !w.Taken || found.SelfWoken
	last, again := w.Phase, now.Add(TicketPeriod/2+jitter(TicketPeriod/2))
	switch {
	case at.Local && !w.Fair:
		if w.Phase, w.Due = Owner, 0; at.Stood || w.IsSet() {
			w.Due = again
		}
	case !at.Stood && w.Stands(now) && w.Taken && !at.Left && (!at.Stays || at.Ranked):
		if w.Phase, w.Due = Ticket, 0; !at.Hears {
			w.Due = min(again, now.Add(w.poll(jitter))) // the try behind the subscription leaves it, too
		}
	case w.Taken && (w.Fair && !at.Turn || w.IsSet() && found.Holder != "" && !at.Free && at.Hears):
		w.Phase, w.Due = Told, again
		if ends := found.Frees; ends != 0 {
			if w.Phase = Rest; last == Rest && w.Calm > ends {
				w.Phase, ends = Told, w.Calm // the try then learns the next rest
			}
			w.Due = min(w.Due, ends)
		}
	case !w.Taken:
		w.Phase, w.Due = Quorum, now.Add(w.poll(jitter))
	case found.Holder == "" || at.Free:
		w.Phase, w.Due = Split, now.Add(splitBackoff(trip, w.splits, jitter))
		w.splits++
	default:
		w.splits = 0
		w.Phase, w.Due = Holder, now.Add(w.poll(jitter))
		switch expires := found.Frees; {
		case expires == 0:
		case expires < w.Due:
			w.Due = expires
		case found.Marked && at.Hears:
			w.Due = min(expires, relyUntil(now, jitter))
		}
	}
	was := w.Quiet
	w.Quiet = at.First && at.Stood && at.Turn && at.Hears && w.Phase == Holder && found.Marked && !found.Readers && !w.Several &&
		!slices.ContainsFunc(found.Nodes, func(at FoundAt) bool { return at.Free }) // there the ticket has gone
	switch {
	case !at.First:
		w.Phase, w.Due = Turn, 0
	case was && w.Quiet: // its ticket stays until then
	case w.Fair || at.Stood:
		w.Due = min(w.Due, again)
	case w.Name != "" && !at.Stays && (!at.Local || w.IsSet()):
		w.Due = min(w.Due, w.ripe())
	}
}

// calmness is the factor between a set's last try and the time that the set then leaves to others before it
// tries because tickets before it rest: many sets that try at each rest would be all that busy nodes do.
const calmness = 64

// TicketLife is how long a ticket counts unless it is left anew; TicketPeriod is how often the first waiter
// of a process leaves its ticket anew, at least. The first in line of all processes has nothing to do until
// the release, and leaves its ticket for QuietLife, with as many tries as without a ticket: nodes cut that to
// TicketLife once the key is free, for the waiter may be dead.
const (
	TicketLife   = 1500 * time.Millisecond
	TicketPeriod = TicketLife / 3
	QuietLife    = 8 * time.Second
)

// poll is the pause to the next try without an announcement: full jitter over a bound that doubles.
func (w *Waiting) poll(jitter func(time.Duration) time.Duration) time.Duration {
	bound := w.BackoffMax
	if w.polls < 32 && w.BackoffMin<<w.polls > 0 {
		bound = min(bound, w.BackoffMin<<w.polls)
	}
	w.polls++
	return jitter(bound) + 1
}

// splitBackoff is the pause after n tries in a row that nobody may have won: the time for the leader to get
// the key or let go, and full jitter over a bound that begins with as much and doubles.
func splitBackoff(trip time.Duration, splits int, jitter func(time.Duration) time.Duration) time.Duration {
	return 2*trip + jitter(min(max(2*trip, time.Millisecond)<<min(splits, 16), MaxSplitBackoff))
}

// MaxSplitBackoff bounds the pauses after split votes.
const MaxSplitBackoff = 250 * time.Millisecond

// relyUntil returns until when a waiter relies on the announcement of a release, which may get lost, or be
// forbidden to the holder: 4 to 6 s from now. All waiters that would look within the same tenth of a second
// do so at its end: their tries share batches.
func relyUntil(now clockdrift.Instant, jitter func(time.Duration) time.Duration) clockdrift.Instant {
	until := now.Add(leastReliance + jitter(leastReliance/2-lookTogether))
	return until - until%clockdrift.Instant(lookTogether) + clockdrift.Instant(lookTogether)
}

const (
	leastReliance = 4 * time.Second
	lookTogether  = 100 * time.Millisecond
)

// Yield is how long a process leaves the key to others after a row of hand-overs: two round trips, in which
// another process hears of the free key and asks for it, the delay of a busy machine, and a random part. A
// busy machine adds several round trips to near nodes, and at most mostBusy to distant ones.
func Yield(trip time.Duration, jitter func(time.Duration) time.Duration) time.Duration {
	return max(3*trip+min(13*trip, mostBusy), 2*time.Millisecond) + jitter(max(min(8*trip, trip+mostBusy), time.Millisecond))
}

const mostBusy = 50 * time.Millisecond
