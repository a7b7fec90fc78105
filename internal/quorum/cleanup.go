package quorum

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// ToRelease makes op the operation that deletes the hold's token.
func (h *Hold) ToRelease(op *Operation) *Operation {
	for _, other := range h.Others() {
		op.behind = append(op.behind, other.unclean()...)
	}
	h.mu.Lock()
	op.Prepare(h, h.releasing(), h.life.Longest())
	if op.Beside = h.within; h.within != nil {
		op.Old = h.within.token
	}
	op.Loud = h.loud
	h.mu.Unlock()
	op.Encode(nil)
	return op
}

// Clear takes the hold's token away from wherever it is or may come to be. It does not wait, and depends on
// nobody's context. It returns the release, which is decided when a quorum of the nodes is free of the
// token; nil: there is nothing to take away.
func (h *Hold) Clear() *Operation {
	nodes := h.unclean()
	if len(nodes) == 0 || !h.life.Deletable(h.spent(h.Board.Clock.Now())) {
		return nil
	}
	op := h.ToRelease(new(Operation))
	if h.putsBack() {
		op.CallNext(&h.Line.Ticket)
	}
	op.AskOf(nodes, max(1, len(nodes)-(len(h.nodes)-h.Board.Quorum)))
	return op
}

// putsBack reports whether a node that gives back its vote gets the ticket of the wait back in the same step, and
// notes where. The wait of a hold that has begun is over.
func (h *Hold) putsBack() bool {
	t := h.Ticket
	if t == nil || !h.Line.Stays || h.Line.Class != protocol.WantsOne || h.Line.Pool != nil || t.leave.Load() != nil || !h.Board.KeepLines() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.putBack = h.life.Until() == 0
	for i := range h.nodes {
		if h.putBack && h.nodes[i].Has() {
			t.sent(i)
		}
	}
	return h.putBack
}

// abandon lets the nodes be cleaned of a lost lock's token, soon. h.mu is held.
func (h *Hold) abandon() {
	if !h.life.Deletable(h.spent(h.Board.Clock.Now())) {
		return
	}
	for _, n := range h.Board.Nodes {
		h.list(n)
	}
	h.weigh()
}

// onReleased looks at the token's trace after a release at a node, and arranges the next release if the
// token is still there or may still appear. h.mu is held.
func (h *Hold) onReleased(v *vote, now clockdrift.Instant) {
	s := &h.nodes[v.Node.Index]
	if s.Clean() && !h.awaited {
		return
	}
	if h.remains(s, now) {
		h.list(v.Node)
	}
	h.weigh()
}

// remains reports whether the node with this state still has to be cleaned. h.mu is held.
func (h *Hold) remains(s *nodeState, now clockdrift.Instant) bool {
	return h.life.Remains(&s.Trace, h.spent(now), now)
}

// list puts the hold on the node's list of clean-ups, unless there is nothing to clean. h.mu is
// held.
func (h *Hold) list(n *node.Node) {
	s := &h.nodes[n.Index]
	if s.listed || s.Clean() {
		return
	}
	if s.listed = h.Board.cleanups[n.Index].add(h, s.pause(h.life.Longest())); !s.listed {
		s.Forget()
	}
}

// The pauses between releases double from the first to the last. While a lost command is waited for, the
// last pause grows with the TTL, or each lost command would cost a long lease thousands of releases.
const (
	firstPause = 10 * time.Millisecond
	LastPause  = 500 * time.Millisecond
	waitShare  = 20 // of the TTL
)

// pause is the time to the next try.
func (s *nodeState) pause(ttl time.Duration) time.Duration {
	most := LastPause
	if s.Gone() {
		most = max(most, ttl/waitShare)
	}
	pause := most
	if s.tries < 32 {
		pause = min(most, firstPause<<s.tries)
		s.tries++
	}
	return pause
}

// weigh tells Close whether it has to wait for the hold: while nobody else can get the key, because too many
// nodes have to be cleaned. The token at a minority keeps nobody out, and ends by its TTL. h.mu is held.
func (h *Hold) weigh() {
	unclean, gone := false, 0
	for i := range h.nodes {
		s := &h.nodes[i]
		unclean = unclean || !s.Clean()
		if s.Gone() {
			gone++
		}
	}
	awaited := unclean && gone < h.Board.Quorum
	if awaited == h.awaited {
		return
	}
	h.awaited = awaited
	if awaited {
		h.Board.Keys.Await(+1)
	} else {
		h.Board.Keys.Await(-1)
	}
}

// cleanups are the holds whose token a node still has to be cleaned of, with one timer a node. While the
// node is down its holds are parked: one of them asks now and then whether the node is up, and expired ones
// are dropped. Once the node is up, all unanswered releases leave at once: a node that stalls again and
// again might be silent whenever a hold's own pause ends.
type cleanups struct {
	board *Board
	node  *node.Node

	mu      sync.Mutex // may be taken with a hold's, not the other way round
	list    []cleanup
	timer   *time.Timer
	armed   bool
	fires   clockdrift.Instant // when the timer does, if armed
	back    bool               // the node answers again, and some were not tried since then
	stopped bool
}

// A cleanup is a hold with the time of its next release.
type cleanup struct {
	hold *Hold
	due  clockdrift.Instant
}

// MaxParked bounds the clean-ups of a down node. A hold beyond it keeps its key at this one node for a TTL
// at most.
const MaxParked = 1 << 14

// add puts h in the list, for a release after the pause. False: there is no room. h.mu is held.
func (cs *cleanups) add(h *Hold, pause time.Duration) bool {
	up := cs.node.Up()
	if !up {
		pause = max(pause, LastPause)
	}
	now := cs.board.Clock.Now()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !up && len(cs.list) >= MaxParked {
		return false
	}
	cs.list = append(cs.list, cleanup{h, now.Add(pause)})
	cs.arm(pause, now)
	return true
}

// arm lets the timer fire after the pause, or before. cs.mu is held.
func (cs *cleanups) arm(pause time.Duration, now clockdrift.Instant) {
	pause = max(pause, firstPause) // one timer serves many
	fires := now.Add(pause)
	if cs.stopped || cs.armed && cs.fires <= fires {
		return
	}
	cs.armed, cs.fires = true, fires
	if cs.timer == nil {
		cs.timer = time.AfterFunc(pause, func() { cs.board.Go(cs.try) })
	} else {
		cs.timer.Reset(pause)
	}
}

// hurry makes all clean-ups due that the node, now up again, has not answered.
func (cs *cleanups) hurry() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.back = true
	cs.arm(0, cs.board.Clock.Now())
}

// try sends the clean-ups that are due: a batch of them, or a single one while the node is down.
func (cs *cleanups) try() {
	cs.mu.Lock()
	list, back := cs.list, cs.back
	cs.list, cs.armed, cs.back = nil, false, false
	cs.mu.Unlock()

	up, most, pause := cs.node.Up(), node.MaxBatch, firstPause
	if !up {
		most, pause = 1, LastPause
	}
	now := cs.board.Clock.Now()
	var due []*Hold
	rest := list[:0]
	for i, c := range list {
		if up && len(due) == most {
			rest = append(rest, list[i:]...)
			break
		}
		room := len(due) < most
		switch stays, tries := c.hold.stays(cs.node, now, room && c.due <= now, room && back); {
		case !stays:
		case tries:
			due = append(due, c.hold)
		default:
			rest = append(rest, c)
		}
	}
	clear(list[len(rest):])
	cs.putBack(rest, pause, now, up && back && len(due) == most)
	for _, h := range due {
		h.ToRelease(new(Operation)).AskOf(cs.board.Nodes[cs.node.Index:cs.node.Index+1], 1)
	}
}

// stays reports whether the node still has to be cleaned of the hold, and whether a release leaves now: the
// hold is due, or the node is back and has not answered. The hold leaves the list unless it stays untried.
func (h *Hold) stays(n *node.Node, now clockdrift.Instant, due, back bool) (stays, tries bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.nodes[n.Index]
	stays = h.remains(s, now) && (h.awaited || !h.Board.closing.Load())
	tries = stays && (due || back && !s.Gone())
	if s.listed = stays && !tries; !stays {
		h.weigh()
	}
	return stays, tries
}

// putBack puts untried clean-ups in the list again, to leave after the pause, or when the first of them is
// due, unless the node is back.
func (cs *cleanups) putBack(rest []cleanup, pause time.Duration, now clockdrift.Instant, back bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.list, cs.back = append(rest, cs.list...), cs.back || back
	if len(rest) == 0 {
		return
	}
	first := slices.MinFunc(rest, func(a, b cleanup) int { return cmp.Compare(a.due, b.due) })
	if !back {
		pause = max(pause, first.due.Sub(now))
	}
	cs.arm(pause, now)
}

// Close lets clean-ups end for which nobody waits.
func (b *Board) Close() { b.closing.Store(true) }

// StopCleanups lets no more tries begin.
func (b *Board) StopCleanups() {
	for _, cs := range b.cleanups {
		cs.mu.Lock()
		cs.stopped = true
		if cs.timer != nil {
			cs.timer.Stop()
		}
		cs.mu.Unlock()
	}
}

// Unreleased returns the keys that no quorum has said to be free of our tokens, each with the names of the
// nodes that may have them.
func (b *Board) Unreleased() map[string][]string {
	nodes := make(map[string][]string)
	for _, cs := range b.cleanups {
		cs.mu.Lock()
		list := slices.Clone(cs.list)
		cs.mu.Unlock()
		for _, c := range list {
			h := c.hold
			h.mu.Lock()
			for _, key := range h.Names() {
				if h.awaited && !slices.Contains(nodes[key], cs.node.Name()) {
					nodes[key] = append(nodes[key], cs.node.Name())
				}
			}
			h.mu.Unlock()
		}
	}
	return nodes
}

// Outstanding counts the clean-ups that wait for their next release.
func (b *Board) Outstanding() (count int) {
	for _, cs := range b.cleanups {
		cs.mu.Lock()
		count += len(cs.list)
		cs.mu.Unlock()
	}
	return count
}
