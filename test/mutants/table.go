package main

import "slices"

// table returns all mutants.
func table() []mutant {
	return slices.Concat(votes, leases, renewals, releases, scripts, dialects, handovers, waiters, permits, shared, sets, turns, fences, guards, proofs, nodes, drifts, hooks, programs, revocations, listings)
}
