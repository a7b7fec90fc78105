package cluster

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A Retry is a token that a client released at a node that stalled, more than once: the first time,
// and the last. Of a vote, it is when the client last asked a near node for it, and when the same
// came to a far one.
type Retry struct {
	Node, Client int
	From, To     time.Time
	Vote         bool
}

// retries are the releases that one client sends a node while it stalls.
type retries struct {
	mu     sync.Mutex
	tokens map[string]*Retry
}

// watchVotes looks at what the fault's clients ask the node for, and of each client keeps the vote that
// came the longest after the others.
func (h *harmed) watchVotes() (end func()) {
	var ends []func()
	for client := range h.links {
		var (
			mu    sync.Mutex
			asked = map[string]time.Time{} // of a near node, the last time
			worst = Retry{Node: slices.Index(h.nodes, h.node), Client: client, Vote: true}
		)
		for i, n := range h.nodes {
			if n != h.node && slices.Contains(h.fault.Nodes, i) {
				continue // it is far, too
			}
			ends = append(ends, n.links[client].Observe(func(commands [][]string) {
				mu.Lock()
				defer mu.Unlock()
				now := time.Now()
				for _, words := range commands {
					token := voted(words)
					switch at, known := asked[token]; {
					case token == "":
					case n != h.node:
						asked[token] = now
					case known && now.Sub(at) > worst.To.Sub(worst.From):
						worst.From, worst.To = at, now
					}
				}
			}))
		}
		ends = append(ends, func() {
			if mu.Lock(); worst.To.After(worst.From) {
				h.retried(worst)
			}
			mu.Unlock()
		})
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// voted returns the token that a command asks to hold a lock's key, or "".
func voted(words []string) string {
	switch {
	case !votes(words):
		return ""
	case words[0] == "SET":
		return words[2]
	case len(words) > 4: // the script, of one key
		return words[4]
	}
	return ""
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
