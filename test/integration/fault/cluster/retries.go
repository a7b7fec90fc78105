package cluster

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A Retry is a token that a client released at a node that stalled, more than once.
type Retry struct {
	Node, Client int
	From, To     time.Time // the first release, and the last
}

// retries are the releases that one client sends a node while it stalls.
type retries struct {
	mu     sync.Mutex
	tokens map[string]*Retry
}

// watch looks at what the fault's clients send the node.
func (h *harmed) watch() (end func()) {
	var ends []func()
	for client, link := range h.links {
		if h.fault.Clients != nil && !slices.Contains(h.fault.Clients, client) {
			continue
		}
		seen := &retries{tokens: map[string]*Retry{}}
		unwatch := link.Observe(seen.see)
		ends = append(ends, func() {
			unwatch()
			seen.mu.Lock()
			defer seen.mu.Unlock()
			for _, r := range seen.tokens {
				if r.To.After(r.From) {
					r.Node, r.Client = slices.Index(h.nodes, h.node), client
					h.retried(*r)
				}
			}
		})
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

func (r *retries) see(commands [][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, words := range commands {
		for _, token := range released(words) {
			if r.tokens[token] == nil {
				r.tokens[token] = &Retry{From: now}
			}
			r.tokens[token].To = now
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
