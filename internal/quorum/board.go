// Package quorum is the algorithm of Redlock: one question about one key is put to N nodes, their
// votes are counted, and what a token may have left at a node is cleaned up. A [Hold] is one
// token's; an [Operation] is one question about it.
package quorum

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Board is what the operations of a Locker share: its nodes, the keys under way, the schedule of
// renewals, and users' own tokens.
type Board struct {
	Config
	*node.Set
	Keys     Keys
	Renewals Schedule
	Spent    SpentTokens
	// Still are tokens of users' own that did not lead a split: see [Hold.BeStill].
	Still SpentTokens
	// Yielded are those of them that let another go first: see [Hold.Yield].
	Yielded SpentTokens

	usualTTL any // the default TTL as servers take it, boxed once
	proposal atomic.Int64
	cleanups []*cleanups // by node
	closing  atomic.Bool
}

// A Config is what a Locker gives its board.
type Config struct {
	NodeTimeout func(ttl time.Duration) time.Duration // of an operation with this TTL
	Fences      bool
	Closing     <-chan struct{} // closed when the Locker is to be
	// ReadAge is how old a counter may be that is a reader's number, where greater ones of before
	// may be forgotten; 0: they are not.
	ReadAge time.Duration
}

// NewBoard returns a board over the nodes.
func NewBoard(c Config, s *node.Set) *Board {
	b := &Board{Config: c, Set: s, usualTTL: protocol.Milliseconds(s.TTL)}
	b.Renewals.board = b
	b.Keys.byKey = make(map[string]*keyState)
	if c.Fences {
		protocol.FenceSet("") // the first name takes some milliseconds, and no acquire should
	}
	for _, n := range s.Nodes {
		b.cleanups = append(b.cleanups, &cleanups{board: b, node: n})
	}
	s.Back = func(n *node.Node) { b.cleanups[n.Index].hurry() }
	return b
}

// Closed reports whether the Locker is being closed, or was.
func (b *Board) Closed() bool { return isClosed(b.Closing) }

// KeyName returns what the nodes call the key that a kind holds; nil: what is asked is of no kind.
func (b *Board) KeyName(kind *protocol.Kind, key string) string {
	if kind != nil && kind.KeyName != "" {
		return kind.KeyName
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
