package quorum

import "github.com/quorumlock/quorumlock/internal/lease"

// A nodeState is what is known of a hold's token at one node.
type nodeState struct {
	lease.Trace
	asked  int32 // requests that may set the key and have no final answer: some may not have left yet
	listed bool  // it is on the node's list of clean-ups
	tries  uint8 // releases that have not ended that
}

// clean reports whether the token is not at the node and cannot appear there.
func (s *nodeState) clean() bool { return s.asked == 0 && s.Clean() }

// gone reports whether the node said that the token is not there, after all commands that may set
// it had left. A lost one may still set it.
func (s *nodeState) gone() bool { return s.asked == 0 && s.Gone() }
