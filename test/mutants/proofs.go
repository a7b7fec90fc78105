package main

// Durable and replicated votes.
var proofs = []mutant{
	{
		name:  "a vote counts that too few replicas have",
		file:  "redlock/durable.go",
		edits: []edit{{`case replicas.Int < int64(d.replicas):`, `case replicas.Int < 0:`}},
	},
	{
		name:  "a vote counts that the node's own disk does not have",
		file:  "redlock/durable.go",
		edits: []edit{{`} else if synced.Int < 1 {`, `} else if synced.Int < 0 {`}},
	},
	{
		name: "a vote counts that an earlier sending brought, of which the proof says nothing",
		file: "redlock/durable.go",
		edits: []edit{{`
		return errEarlier`, `
		return fault`}},
	},
	{
		name: "replies count whose proof is missing",
		file: "redlock/tail.go",
		edits: []edit{{`len(replies) < t.body+t.proof {
		return nil`, `len(replies) < t.body+t.proof {
		return replies`}},
	},
	{
		name: "a prolongation without a script that has written nothing is proved",
		file: "redlock/durable.go",
		edits: []edit{{`
		return errLonger`, `
		return fault`}},
	},
}
