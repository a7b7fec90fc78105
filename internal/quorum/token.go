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

// Spend refuses a token of the user's own from now on.
func (h *Hold) Spend() {
	if h.Own {
		now := h.Board.Clock.Now()
		h.Board.Spent.Add(h.Token, now.Add(h.Longest()), now)
	}
}

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
