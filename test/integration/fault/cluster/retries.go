package cluster

import (
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/scripts"
)

// retries are the releases that clients send a node while it stalls.
type retries struct {
	mu      sync.Mutex
	first   map[string]time.Time // when each token was released first
	longest time.Duration        // from the first release of a token to the last
}

// watch looks at what the fault's clients send the node.
func (h *harmed) watch() (end func()) {
	seen := &retries{first: map[string]time.Time{}}
	var ends []func()
	for _, link := range h.linked() {
		ends = append(ends, link.Observe(seen.see))
	}
	return func() {
		for _, end := range ends {
			end()
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		h.retried(seen.longest)
	}
}

func (r *retries) see(commands [][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, words := range commands {
		for _, token := range released(words) {
			first, again := r.first[token]
			if !again {
				first, r.first[token] = now, now
			}
			r.longest = max(r.longest, now.Sub(first))
		}
	}
}

// released returns the tokens that a command releases: the script has a token for each key,
// and the keys in front.
func released(words []string) []string {
	if len(words) < 3 || words[1] != scripts.Release.Digest && words[1] != scripts.Release.Source {
		return nil
	}
	keys, err := strconv.Atoi(words[2])
	if err != nil || len(words) < 3+2*keys {
		return nil
	}
	return words[3+keys : 3+2*keys]
}
