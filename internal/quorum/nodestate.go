package quorum

import "github.com/quorumlock/quorumlock/internal/lease"

// A nodeState is our knowledge of a hold's token at a node, and of the clean-up there.
type nodeState struct {
	lease.Trace
	listed bool  // in the node's list of clean-ups
	tries  uint8 // releases that did not end the trace
}
