package main

// Durable and replicated votes.
var proofs = []mutant{
	wrong("a vote counts that too few replicas have",
		in("Durability.missing", never(`replicas.Int < int64(d.Replicas)`))),
	wrong("a vote counts that the node's own disk does not have",
		in("Durability.missing", never(`synced.Int < 1`))),
	wrong("a vote counts that an earlier sending brought, of which the proof says nothing",
		in("Gates.Unwritten", replace(`errEarlier`, `nil`))),
	wrong("replies count whose proof is missing",
		in("Gates.Unknown", returns(`false`))),
	wrong("a prolongation without a script that has written nothing is proved",
		in("Gates.Unwritten", replace(`errLonger`, `nil`))),
}
