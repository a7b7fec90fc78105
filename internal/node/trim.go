package node

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Trims forget the counters of idle keys at one node, one trim at a time. A trim that fails is not
// repeated: an acquire to come asks for the next.
//
// One of so many fenced acquires asks for a trim of its set, by chance, for a process may acquire
// only once. A trim forgets about four times as many counters as were added between it and the one
// before, as long as there are more than it leaves: so sets shrink to what is in use, and none
// takes long.
type trims struct {
	node *Node

	mu      sync.Mutex
	busy    bool
	limited bool        // the user was told that the node does not let itself be trimmed
	wanted  map[any]int // sets that come next, by how many acquires have asked for it
}

const (
	trimChance  = 16
	trimLeaves  = 64          // so many counters of a set
	trimAge     = time.Minute // of what is forgotten: clients whose clocks differ by less need no second round
	trimSets    = 64          // in one sending
	trimRequest = 16          // acquires that count for one trim of a set
)

// Trim asks for a trim behind a fenced acquire, with luck.
func (n *Node) Trim(a *protocol.Ask) {
	if a.Many == nil {
		if n.set.Jitter(trimChance) == 0 {
			n.trims.want(a.Fence.Set)
		}
		return
	}
	for _, set := range a.Sets() {
		if n.set.Jitter(trimChance) == 0 {
			n.trims.want(set)
		}
	}
}

func (t *trims) want(set any) {
	t.mu.Lock()
	if t.wanted == nil {
		t.wanted = make(map[any]int)
	}
	if asked := t.wanted[set]; asked > 0 || len(t.wanted) < trimSets {
		t.wanted[set] = min(asked+1, trimRequest)
	}
	begins := !t.busy
	t.busy = true
	t.mu.Unlock()
	if begins {
		t.begin()
	}
}

// begin looks at the sets that are wanted; t is busy.
func (t *trims) begin() {
	t.mu.Lock()
	wanted := t.wanted
	t.wanted = nil
	t.busy = len(wanted) > 0
	t.mu.Unlock()
	if len(wanted) == 0 {
		return
	}
	sets, cmds := make([]any, 0, len(wanted)), make([]driver.Command, 0, 2*len(wanted))
	for set, asked := range wanted {
		sets, cmds = append(sets, set), protocol.AskSize(cmds, set, asked*trimLeaves)
	}
	t.node.Ask(protocol.SizeUp, cmds, func(p *protocol.Part, err error) {
		if err != nil {
			t.end(nil, err)
			return
		}
		t.trim(sets, p.Reply)
	})
}

// trim forgets what is below the floors that the node has shown, and raises them for the next trim.
func (t *trims) trim(sets []any, replies []driver.Reply) {
	var cmds []driver.Command
	latest := min(t.node.set.Microseconds(), t.node.Microseconds(), time.Now().UnixMicro()) - trimAge.Microseconds()
	for i, set := range sets {
		counter, seen, ok := protocol.ReadSize(replies[2*i : 2*i+2])
		next := max(seen, min(counter+1, latest)) // many keys of one lock have the same number
		if ok && seen < protocol.MaxFence && (next > seen || counter < seen) {
			cmds = protocol.AskTrim(cmds, set, seen, next)
		}
	}
	if len(cmds) == 0 {
		t.begin()
		return
	}
	t.node.Ask(protocol.Trim, cmds, t.end)
}

// end begins the next trim. If this one has failed, so would the next one, most likely.
func (t *trims) end(_ *protocol.Part, err error) {
	if err == nil {
		t.begin()
		return
	}
	t.mu.Lock()
	tells := protocol.Answers(err) && !t.limited
	t.busy, t.wanted, t.limited = false, nil, t.limited || tells
	t.mu.Unlock()
	if tells {
		t.node.Note(fault.NodeLimited, err)
		t.node.Emit()
	}
}
