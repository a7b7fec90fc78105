package main

// Durable and replicated votes.
var proofs = []mutant{
	wrong("a vote counts that too few replicas have",
		in("durability.judge", never(`replicas.Int < int64(d.replicas)`))),
	wrong("a vote counts that the node's own disk does not have",
		in("durability.judge", never(`synced.Int < 1`))),
	wrong("a vote counts that an earlier sending brought, of which the proof says nothing",
		in("request.unproved", replace(`errEarlier`, `fault`))),
	wrong("replies count whose proof is missing",
		in("batch.takeTail", replace(`t.body+t.proof { return nil`, `t.body+t.proof { return replies`))),
	wrong("a prolongation without a script that has written nothing is proved",
		in("request.unproved", replace(`errLonger`, `fault`))),
}
