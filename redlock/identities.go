package redlock

import "sync"

// identities are the run_ids that the nodes have told: two nodes that tell the same
// are one server under two addresses.
type identities struct {
	mu sync.Mutex
	of []string // by node
}

// identify notes the run_id of n. It returns the other node that has it already, or
// else whether n had another one before.
func (l *Locker) identify(n *node, runID string) (twin *node, reborn bool) {
	l.idents.mu.Lock()
	defer l.idents.mu.Unlock()
	if runID != "" {
		for i, other := range l.idents.of {
			if i != n.index && other == runID {
				return l.nodes[i], false
			}
		}
	}
	before := l.idents.of[n.index]
	l.idents.of[n.index] = runID
	return nil, before != "" && runID != "" && before != runID
}
