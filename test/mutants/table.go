package main

import "slices"

// table returns all mutants.
func table() []mutant {
	return slices.Concat(votes, leases, renewals, releases, scripts, dialects, handovers, waiters, fences, guards, proofs, nodes, drifts)
}
