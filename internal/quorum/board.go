// Package quorum asks N nodes one question about one key, counts their votes, and cleans up what a token may
// have left at a node: the algorithm of Redlock. A [Hold] is the life of a token; an [Operation] is a
// question about a hold.
package quorum

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Board is shared by the operations of a Locker: nodes, keys under way, the schedule of renewals, and
// users' own tokens.
type Board struct {
	Config
	*node.Set
	Keys     Keys
	Renewals Schedule
	Spent    SpentTokens

	usualTTL any // the default TTL as servers take it, boxed once
	proposal atomic.Int64
	cleanups []*cleanups // by node
	closing  atomic.Bool
}

// A Config is a Locker's settings for its board.
type Config struct {
	NodeTimeout func(ttl time.Duration) time.Duration // of an operation with this TTL
	Fences      bool
	Closing     <-chan struct{} // closed when the Locker is to be
	// ReadAge is the greatest age of a counter that becomes a reader's number, where greater counters may be
	// forgotten; 0: no counter is forgotten.
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

// KeyName returns the nodes' name of a kind's key; nil: the question is of no kind.
func (b *Board) KeyName(kind *protocol.Kind, key string) string {
	if kind != nil && kind.KeyName != "" {
		return kind.KeyName
	}
	return b.Prefix + key
}

// Milliseconds returns a TTL in the servers' form, boxed.
func (b *Board) Milliseconds(ttl time.Duration) any {
	if ttl == b.TTL {
		return b.usualTTL
	}
	return protocol.Milliseconds(ttl)
}
