package node

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Trims forget the counters of idle keys at one node, one trim at a time. A failed trim is not repeated: a
// later acquire asks for the next.
//
// One in trimChance fenced acquires asks for a trim of its set, by chance, for a process may acquire only
// once. A trim forgets about four times as many counters as were added since the last trim, as long as the
// set has more than trimLeaves: sets shrink to the counters in use, and no trim takes long.
type trims struct {
	node *Node

	mu      sync.Mutex
	busy    bool
	limited bool        // the user was told that the node refuses trims
	wanted  map[any]int // the next trim's sets, by how many acquires asked
}

const (
	trimChance  = 16
	trimLeaves  = 64          // counters of a set
	trimAge     = time.Minute // of forgotten counters: clients whose clocks differ by less need no second round
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

// begin looks at the sizes of the wanted sets; t is busy.
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
	t.node.Ask(protocol.SizeUp, cmds, func(replies []driver.Reply, err error) {
		if err != nil {
			t.end(nil, err)
			return
		}
		t.trim(sets, replies)
	})
}

// trim forgets the counters below the floors that the node told, and raises the floors for the next trim.
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

// end begins the next trim. After a failure the next one would fail, too, most likely.
func (t *trims) end(_ []driver.Reply, err error) {
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
