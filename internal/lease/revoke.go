package lease

import (
	"slices"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// An operator revokes a lock by tombstones: each is put in the place of the lock's token at one node, and stays there for
// at least as long as the token would have. A second round makes all of them last until the lease has ended.

// Tombstones is how many keep every extension from a quorum that is asked for behind them.
func Tombstones(nodes, quorum int) int { return nodes - quorum + 1 }

// RevokedUntil is when the lease of a revoked lock ends at the latest. Tombstones: when each of them ends.
//
// The lease has a quorum of the nodes, which keep the key for at least as long: by a tombstone, or by the token where
// there is none. With T tombstones at N nodes, at least quorum - (N - T) of that quorum have one.
func RevokedUntil(tombstones []clockdrift.Instant, nodes, quorum int) clockdrift.Instant {
	ends := slices.Sorted(slices.Values(tombstones))
	if len(ends) == 0 {
		return 0
	}
	return ends[len(ends)-max(1, quorum-(nodes-len(ends)))]
}
