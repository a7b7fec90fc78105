package main

// Releases and clean-ups, and that they stand behind what they undo.
var releases = []mutant{
	{
		name:  "the commands for a key go to a node as they come, not in a lane",
		file:  "redlock/node.go",
		edits: []edit{{`last := r.op.lane.last[n.index]; last != nil {`, `last := r.op.lane.last[n.index]; last != nil && n == nil {`}},
	},
	{
		name: "a clean-up does not wait until its attempt is in all lanes",
		file: "redlock/operation.go",
		edits: []edit{
			{`op.decided, op.clears && op.submitted, op.complete`, `op.decided, op.clears, op.complete`},
			{`false, op.clears && !op.submitted, false`, `false, false, false`},
		},
	},
	{
		name:  "what a failed attempt has set stays on the nodes",
		file:  "redlock/acquire.go",
		edits: []edit{{`op.clears = !l.claim.own`, `op.clears = false`}},
	},
	{
		name:   "a failed attempt with a token of the user's own is taken back, though his retry may hold the lock",
		file:   "redlock/acquire.go",
		edits:  []edit{{`op.clears = !l.claim.own`, `op.clears = true`}},
		suites: []suite{{pkg: "./redlock", run: "TestPitfall15"}},
	},
	{
		name:  "an attempt is taken back only where its grant was heard of",
		file:  "redlock/cleanup.go",
		edits: []edit{{`if !c.traces[i].clean() {`, `if c.traces[i].there {`}},
	},
	{
		name:  "an answer that the token is not there ends the releases of an unknown outcome",
		file:  "redlock/claim.go",
		edits: []edit{{`if deleted && t.set == 1 {`, `if deleted || t.set > 0 {`}},
	},
	{
		name:  "a deletion ends the releases, though a second command may set the key again",
		file:  "redlock/claim.go",
		edits: []edit{{`if deleted && t.set == 1 {`, `if deleted {`}},
	},
	{
		name:  "a release that a node did not answer is not tried again",
		file:  "redlock/cleanup.go",
		edits: []edit{{`if t.owed || t.clean() {`, `if t.owed || n != nil {`}},
	},
	{
		name:  "a server's restart ends what is owed to its successor",
		file:  "redlock/claim.go",
		edits: []edit{{`if t.since < reborn && reborn <= released {`, `if reborn != 0 && reborn <= released {`}},
	},
	{
		name:  "a release is silent about a lock that was gone from all nodes",
		file:  "redlock/release.go",
		edits: []edit{{`case lost || !op.deleted() && !op.doubt:`, `case lost:`}},
	},
	{
		name:  "Close leaves what is held on the nodes",
		file:  "redlock/locker.go",
		edits: []edit{{`		lock.quit()`, `		_ = lock`}},
	},
	{
		name:  "a token of the user's own may be used again as soon as it was released",
		file:  "redlock/acquire.go",
		edits: []edit{{`if l.spent.has(*o.token, l.clock.Now()) {`, `if l.spent.has("", l.clock.Now()) {`}},
	},
}
