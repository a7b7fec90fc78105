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

// sameRound is within what time all nodes are asked for a token that is tried again: a user's own.
const sameRound = 250 * time.Millisecond

// A ballot is when a client asked near nodes for a token the last time, and how long afterwards it
// asked a far one, unless the far one was only the first to be asked again.
type ballot struct{ near, far time.Time }

// watchVotes looks at what the fault's clients ask the node for, and of each client keeps the vote
// that came the longest after the others.
func (h *harmed) watchVotes() (end func()) {
	var ends []func()
	for client := range h.links {
		var (
			mu    sync.Mutex
			asked = map[string]*ballot{}
			worst = Retry{Node: slices.Index(h.nodes, h.node), Client: client, Vote: true}
		)
		judge := func(b *ballot) {
			if b.far.Sub(b.near) > worst.To.Sub(worst.From) {
				worst.From, worst.To = b.near, b.far
			}
		}
		for i, n := range h.nodes {
			if n != h.node && slices.Contains(h.fault.Nodes, i) {
				continue // it is far, too
			}
			ends = append(ends, n.links[client].Observe(func(commands [][]string) {
				mu.Lock()
				defer mu.Unlock()
				now := time.Now()
				for _, words := range commands {
					for _, token := range voted(words) {
						switch b := asked[token]; {
						case n == h.node && b != nil:
							b.far = now
						case n == h.node:
						case b != nil && !b.far.IsZero() && now.Sub(b.far) > sameRound:
							judge(b)
							fallthrough
						default:
							asked[token] = &ballot{near: now}
						}
					}
				}
			}))
		}
		ends = append(ends, func() {
			mu.Lock()
			defer mu.Unlock()
			for _, b := range asked {
				judge(b)
			}
			if worst.To.After(worst.From) {
				h.retried(worst)
			}
		})
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// voted returns the tokens that a command asks to hold locks' keys.
func voted(words []string) []string {
	switch {
	case len(words) > 2 && (words[1] == scripts.Extend.Digest || words[1] == scripts.Extend.Source):
		return second(words)
	case !votes(words):
		return nil
	case words[0] == "SET":
		return words[2:3]
	case len(words) > 4: // the script, of one key
		return words[4:5]
	}
	return nil
}

// second returns what a script's command has behind its keys, one for each.
func second(words []string) []string {
	keys, err := strconv.Atoi(words[2])
	if err != nil || len(words) < 3+2*keys {
		return nil
	}
	return words[3+keys : 3+2*keys]
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
	return second(words)
}
