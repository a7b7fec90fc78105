package quorum

import "github.com/quorumlock/quorumlock/internal/lease"

// A nodeState is what is known of a hold's token at one node, and of its clean-up.
type nodeState struct {
	lease.Trace
	listed bool  // it is on the node's list of clean-ups
	tries  uint8 // releases that have not ended that
}
