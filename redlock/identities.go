package redlock

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
)

// identities are the run_ids that the nodes have told: two nodes that tell the same
// are one server under two addresses.
type identities struct {
	mu   sync.Mutex
	of   []string // by node
	seed maphash.Seed
}

// identify notes which server the node is, and reports whether it was another one before.
// The error is that another node is that server. The one that has told it first keeps its
// vote, and is asked again, for the two may have changed places: so this node is no more what it
// was, either.
func (n *node) identify(f *facts) (reborn bool, err error) {
	ids := &n.locker.idents
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if f.runID == "" {
		return false, nil
	}
	n.server.Store(uint32(maphash.String(ids.seed, f.runID)) | 1) //nolint:gosec // any of the bits will do
	before := ids.of[n.index]
	for i, other := range ids.of {
		if i != n.index && other == f.runID {
			ids.of[n.index] = ""
			n.locker.work.start(n.locker.nodes[i].lookAgain)
			return false, fmt.Errorf("%w: it is the same server as node %s, and would vote twice: give each node a server of its own",
				ErrNode, n.locker.nodes[i].name)
		}
	}
	if before != f.runID {
		ids.of[n.index] = strings.Clone(f.runID) // and not all that the node has said
	}
	return before != "" && before != f.runID, nil
}

// lookAgain asks the node by itself what it is.
func (n *node) lookAgain() {
	ctx, cancel := context.WithTimeout(n.locker.life, n.locker.timeout)
	defer cancel()
	sent := n.locker.clock.Now()
	if replies, err := n.do(ctx, askFitness); err == nil {
		_ = n.heardFitness(replies, sent) // it tells the node, too
	}
}

// errTwice is the fate of a vote of a server that has voted as another node before.
var errTwice = errors.New("this server has voted already, as another node: names have changed places")

// twice reports whether the server that r's node is now has agreed to the operation as
// another node: between two looks at them, nodes may change places. claim.mu is held.
func (op *operation) twice(r *request) bool {
	r.server = r.node.server.Load()
	for i := range op.requests {
		other := &op.requests[i]
		if other != r && r.server != 0 && other.server == r.server && op.task.agrees(other.answer) {
			return true
		}
	}
	return false
}
