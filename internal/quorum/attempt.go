package quorum

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// An Attempt is one token's to have one key, or several, and what is known of it at every node.
type Attempt struct {
	Board *Board
	Kind  *protocol.Kind
	Key   string         // as the user named it
	Many  *protocol.Many // its keys, if it is for several
	Token string
	Own   bool            // the token is the user's own
	Stand *protocol.Stand // of one who waits in line; nil: he does not
	Turn  *protocol.Turn  // of one who asks for permits; nil: he heeds nobody who waits for several
	// The key as the nodes know it and the token, boxed once for all commands.
	key, token any
	fence      protocol.Fence // the set of its counter, where there are fences
	lane       string         // what its commands stand in line for: the key, or its own place beside others

	Mu      sync.Mutex // guards all below, the attempt's operations, and its lock
	Loud    bool       // it has held the key, or others may believe so: its releases are announced
	Longest time.Duration
	Contest *Contest // nil: the votes of the acquire were not split
	awaited bool     // Close waits for its clean-ups: see [Attempt.weigh]
	nodes   []nodeState
	sides   *protocol.Sides // where its kind has keys beside the key, or it is converted
	others  []*Attempt      // what the hold had, or was to have, before or after a conversion: see [Attempt.Convert]
	within  *Attempt        // whose hold it was or was to be: see [Attempt.Convert]
	asked   *Operation      // the last of its operations that may set the key and have open requests
	// unwanted: its hold is over and was not abandoned, or a quorum has granted the token that it goes on with.
	unwanted bool

	over atomic.Bool // the hold that it began has ended
}

// A Contest is an acquire whose votes were split, so that it is asked again.
type Contest struct {
	Over  chan struct{} // closed when it is settled, or the attempt has let go
	Again *Operation    // the last round, if there was a second; guarded by Attempt.Mu
}

// Init makes a an attempt of the token, for a lease of ttl.
func (a *Attempt) Init(b *Board, kind *protocol.Kind, key, token string, ttl time.Duration) {
	a.Board, a.Kind, a.Key, a.Token, a.Longest = b, kind, key, token, ttl
	a.key, a.token = b.Place(kind, key), token
	a.nodes = make([]nodeState, len(b.Nodes))
	if kind != nil && kind.Many != nil {
		a.Many, a.key = kind.Many, kind.Many.First()
	}
	a.lane = a.key.(string)
	if kind != nil && kind.Joins {
		a.sides = protocol.NewSides(a.lane)
		a.lane += "\x00" + token
	}
	if b.Fences {
		a.fence.Set = protocol.FenceSet(a.key.(string))
	}
}

// Names are the keys' names.
func (a *Attempt) Names() []string {
	if a.Many == nil {
		return []string{a.Key}
	}
	return a.Many.Names
}

// Has reports whether the key is one of the attempt's.
func (a *Attempt) Has(key string) bool {
	return a.Many == nil && a.Key == key || a.Many != nil && slices.Contains(a.Many.Names, key)
}

// LongestLease is the longest lease that the attempt has asked for.
func (a *Attempt) LongestLease() time.Duration {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Longest
}

// A nodeState is what is known of an attempt's token at one node.
//
// An unknown outcome is not ended by an answer "not there": a server that was stopped runs what
// lies in its buffers when it wakes up, and not in the order of the connections, so that an
// acquire that timed out may run after its own release.
type nodeState struct {
	asked   int32              // requests that may set the key and have no final answer
	set     int32              // commands that have set the key, or may have
	open    int32              // those of them that have no answer
	lost    int32              // those of the open ones that will get none
	there   bool               // a node said that the token has the key
	listed  bool               // it is on the node's list of clean-ups
	tries   uint8              // releases that have not ended that
	since   clockdrift.Instant // when the last command left, was answered or was lost
	replied clockdrift.Instant // when the node first answered after the last loss; 0: not yet
}

// clean reports whether the token is not at the node and cannot appear there.
func (s *nodeState) clean() bool { return s.asked == 0 && !s.there && s.open == 0 }

// gone reports whether the node said that the token is not there, after all commands that may set
// it had left. A lost one may still set it.
func (s *nodeState) gone() bool { return s.asked == 0 && !s.there && (s.open == 0 || s.replied != 0) }

// onLeave notes that a command that may set the key is about to leave.
func (s *nodeState) onLeave(now clockdrift.Instant) {
	s.set++
	s.open++
	s.since = now
}

// onKnown notes what came of a command that may have set the key.
func (s *nodeState) onKnown(set bool, now clockdrift.Instant) {
	s.open = max(s.lost, s.open-1)
	if set {
		s.there, s.since = true, now
	} else {
		s.set--
	}
}

// onLost notes that a command that may have set the key gets no answer.
func (s *nodeState) onLost(now clockdrift.Instant) {
	s.lost = min(s.lost+1, s.open)
	s.since, s.replied = now, 0
}

// onReply notes that the node has answered a command that left at start.
func (s *nodeState) onReply(start, now clockdrift.Instant) {
	if s.replied == 0 && start >= s.since {
		s.replied = now
	}
}

// onRelease notes the answer to a release.
func (s *nodeState) onRelease(deleted bool) {
	s.there = false
	if deleted && s.set == 1 {
		s.open, s.lost = 0, 0 // what was deleted is what the only command set: it has run
	}
}

// outlive forgets what must have expired by now: what the node has said to have set, one TTL
// later; and lost commands one TTL after the node has answered again, for what lay in its buffers
// it has run by then. Later failures of the node do not change that.
func (s *nodeState) outlive(now clockdrift.Instant, ttl time.Duration) {
	if now >= s.since.Add(ttl) {
		s.there = false
	}
	if s.lost > 0 && s.replied != 0 && now >= s.replied.Add(ttl) {
		s.open, s.lost = s.open-s.lost, 0
	}
}

// outlast forgets the commands that a server took with it when it ended: what it had not run by
// then nobody will. A release that was sent to its successor has said what there is.
func (s *nodeState) outlast(reborn, released clockdrift.Instant) {
	if s.since < reborn && reborn <= released {
		s.open, s.lost = 0, 0
	}
}

// forget leaves what is at the node to the TTL.
func (s *nodeState) forget() { s.open, s.lost, s.there = 0, 0, false }

// SpentTokens are users' own tokens that may not be used for some time. Those that were released are:
// a late retry of the request that had one would take a lock that nobody will release.
type SpentTokens struct {
	mu    sync.Mutex
	until map[string]clockdrift.Instant
	sweep int // at this size
}

// FirstSweep is the number of tokens at which those are removed whose time is over.
const FirstSweep = 1024

// Add refuses token until the instant.
func (s *SpentTokens) Add(token string, until, now clockdrift.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until, s.sweep = make(map[string]clockdrift.Instant), FirstSweep
	}
	if len(s.until) >= s.sweep {
		for old, end := range s.until {
			if now >= end {
				delete(s.until, old)
			}
		}
		s.sweep = max(FirstSweep, 2*len(s.until))
	}
	s.until[token] = until
}

// Has reports whether token is refused.
func (s *SpentTokens) Has(token string, now clockdrift.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now < s.until[token]
}

// Cut refuses token no longer than until the instant.
func (s *SpentTokens) Cut(token string, until clockdrift.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until[token] > until {
		s.until[token] = until
	}
}

// Spend refuses a token of the user's own from now on.
func (a *Attempt) Spend() {
	if a.Own {
		now := a.Board.Clock.Now()
		a.Board.Spent.Add(a.Token, now.Add(a.LongestLease()), now)
	}
}

// BeStill lets tries with a token of the user's own ask for no lease, until what they have asked for
// by now has ended.
func (a *Attempt) BeStill() {
	now := a.Board.Clock.Now()
	a.Board.Still.Add(a.place(), now.Add(a.LongestLease()), now)
}

// StayStill prolongs that, unless the token has yielded.
func (a *Attempt) StayStill() {
	if !a.Board.Yielded.Has(a.place(), a.Board.Clock.Now()) {
		a.BeStill()
	}
}

// Yield lets them ask again in a while, each in another one, whatever is seen until then: who leads has
// the key by then, or is gone, or others take it by turns.
func (a *Attempt) Yield() {
	now, lease, token := a.Board.Clock.Now(), a.LongestLease(), a.place()
	if a.Board.Yielded.Has(token, now) {
		return
	}
	until := now.Add(lease/8 + a.Board.Jitter(lease/8))
	a.Board.Still.Cut(token, until)
	a.Board.Yielded.Add(token, until.Add(lease), now)
}

// IsStill reports whether it does.
func (a *Attempt) IsStill() bool {
	return a.Board.Still.Has(a.place(), a.Board.Clock.Now())
}

// place is the token where it is asked for: it may be still there, and not elsewhere.
func (a *Attempt) place() string { return a.lane + "\x00" + a.Token }

// Spent reports whether the attempt's token is the user's own and was released.
func (a *Attempt) Spent(now clockdrift.Instant) bool {
	return a.Own && a.Board.Spent.Has(a.Token, now)
}

// Len is the number of tokens that are kept.
func (s *SpentTokens) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.until)
}
