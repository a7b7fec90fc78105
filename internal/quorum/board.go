// Package quorum is the algorithm of Redlock: one question about one key is put to N nodes, their
// votes are counted, and what a token may have left at a node is cleaned up. An [Attempt] is one
// token's; an [Operation] is one question about it.
package quorum

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Board is what the operations of a Locker share.
type Board struct {
	Config
	*node.Set
	Keys  Keys
	Spent SpentTokens
	// Still are tokens of users' own that did not lead a split: see [Attempt.BeStill].
	Still SpentTokens
	// Yielded are those of them that let another go first: see [Attempt.Yield].
	Yielded SpentTokens

	usualTTL any // the default TTL as servers take it, boxed once
	proposal atomic.Int64
	cleanups []*cleanups // by node
	trims    []*trims    // likewise; none without fences
	closing  atomic.Bool
}

// A Config is what a Locker gives its board.
type Config struct {
	NodeTimeout func(ttl time.Duration) time.Duration // of an operation with this TTL
	Fences      bool
	// ReadAge is how old a counter may be that is a reader's number, where greater ones of before may
	// be forgotten; 0: they are not.
	ReadAge time.Duration
}

// NewBoard returns a board over the nodes.
func NewBoard(c Config, s *node.Set) *Board {
	b := &Board{Config: c, Set: s, usualTTL: protocol.Milliseconds(s.TTL)}
	b.Keys.byKey = make(map[string]*keyState)
	if c.Fences {
		protocol.FenceSet("") // the first name takes some milliseconds, and no acquire should
	}
	for _, n := range s.Nodes {
		b.cleanups = append(b.cleanups, &cleanups{board: b, node: n})
		if c.Fences {
			b.trims = append(b.trims, &trims{board: b, node: n})
		}
	}
	return b
}

// Place returns what the nodes call the key that a kind holds; nil: what is asked is of no kind.
func (b *Board) Place(kind *protocol.Kind, key string) string {
	if kind != nil && kind.Place != "" {
		return kind.Place
	}
	return b.Prefix + key
}

// Milliseconds returns a TTL as servers take it, boxed.
func (b *Board) Milliseconds(ttl time.Duration) any {
	if ttl == b.TTL {
		return b.usualTTL
	}
	return protocol.Milliseconds(ttl)
}

// Propose returns a fence above those that it has returned before.
//
// It is the time in microseconds by the median of the nodes' clocks, so it is accepted at once
// where nothing is wrong, a clock that is years off poisons nothing, and the number of an idle key
// may be forgotten. Proposals that came from wrong clocks are let go of once the median is far
// below them: nodes that have accepted one refuse smaller ones, which are raised then, and a node
// that has forgotten it is no longer ahead of other clients' clocks.
func (b *Board) Propose() int64 {
	now := b.Microseconds()
	for {
		last := b.proposal.Load()
		p := now
		if last >= now && last-now < maxLead.Microseconds() {
			p = last + 1
		}
		if b.proposal.CompareAndSwap(last, p) {
			return p
		}
	}
}

// maxLead is how far proposals may be ahead of the clocks to be above those before.
const maxLead = 100 * time.Millisecond

// ProposeAgain makes another round of an acquire carry a new fence, above its own before.
func (op *Operation) ProposeAgain() {
	if own := op.Fence.Number; own != 0 {
		op.Uncarry()
		op.Carry(max(op.board().Propose(), own+1))
	}
}

// Carry makes the operation carry the fence p.
func (op *Operation) Carry(p int64) {
	op.Ask.Carry(p)
	op.Exact = true
}

// CarryAlong makes an extension carry the lock's fence p to nodes that have none as great, if p is
// ahead of the clocks. Others need not be carried: what is proposed later is above them.
func (op *Operation) CarryAlong(p int64) {
	if p-op.board().Microseconds() > maxLead.Microseconds() {
		op.Carry(p)
	}
}

// Propose makes an acquire carry a new fence, if fences are wanted and its kind has them.
func (op *Operation) Propose() {
	if b := op.board(); b.Fences && op.Op.Fenced() {
		op.Carry(b.Propose())
	}
}

// Outlived reports whether the proposal is as old as the lease: such a number may be below one
// that a node has forgotten. The number tells its age, too, for the machine may have slept before
// the operation was asked.
func (op *Operation) Outlived(now clockdrift.Instant) bool {
	return op.Fence.Number != 0 && !op.Op.Levels &&
		(now >= op.Asked.Add(op.Lease) || op.board().Microseconds()-op.Fence.Number >= op.Lease.Microseconds())
}
