package quorum

import (
	"sync"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// SpentTokens are users' own tokens that may not be used for some time. A released token is spent: a late
// retry of its request would take a lock that nobody will release.
type SpentTokens struct {
	mu    sync.Mutex
	until map[string]clockdrift.Instant
	sweep int // at this size
}

// FirstSweep is the number of tokens at which expired ones are removed.
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
func (h *Hold) Spend() {
	if h.Own {
		now := h.Board.Clock.Now()
		h.Board.Spent.Add(h.Token, now.Add(h.Longest()), now)
	}
}

// BeStill keeps tries with a token of the user's own from asking for a lease, until the leases that they
// have asked for so far have ended.
func (h *Hold) BeStill() {
	now := h.Board.Clock.Now()
	h.Board.Still.Add(h.tokenAt(), now.Add(h.Longest()), now)
}

// StayStill prolongs that, unless the token has yielded.
func (h *Hold) StayStill() {
	if !h.Board.Yielded.Has(h.tokenAt(), h.Board.Clock.Now()) {
		h.BeStill()
	}
}

// Yield lets the token's tries ask again in a while, each in another one, whatever they see until then: the
// leading token has the key by then, or is gone, or others take the key one after the other.
func (h *Hold) Yield() {
	now, lease, token := h.Board.Clock.Now(), h.Longest(), h.tokenAt()
	if h.Board.Yielded.Has(token, now) {
		return
	}
	until := now.Add(lease/8 + h.Board.Jitter(lease/8))
	h.Board.Still.Cut(token, until)
	h.Board.Yielded.Add(token, until.Add(lease), now)
}

// IsStill reports whether tries of the token ask for no lease.
func (h *Hold) IsStill() bool {
	return h.Board.Still.Has(h.tokenAt(), h.Board.Clock.Now())
}

// tokenAt is the token at a key and prefix: a token may be still at one, and not elsewhere.
func (h *Hold) tokenAt() string { return h.lane + "\x00" + h.Token }

// spent reports whether the hold's token is the user's own and was released.
func (h *Hold) spent(now clockdrift.Instant) bool {
	return h.Own && h.Board.Spent.Has(h.Token, now)
}

// Len is the number of kept tokens.
func (s *SpentTokens) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.until)
}
