package main

// Renewal and Do.
var renewals = []mutant{
	{
		name: "a renewal that failed is not tried again",
		file: "redlock/renewal.go",
		edits: []edit{{`
	r.failed = op
	r.plan(now.Add(r.pause(now)))`, `
	r.failed = op`}},
	},
	{
		name:  "the context of a lock that renewal could not keep does not say what the nodes said",
		file:  "redlock/lock.go",
		edits: []edit{{`l.cause = l.lossCause()`, `l.cause = cause`}},
	},
	{
		name:  "renewal goes on for an hour after the longest hold",
		file:  "redlock/acquire.go",
		edits: []edit{{`op.start.Add(l.maxHold)`, `op.start.Add(l.maxHold).Add(time.Hour)`}},
	},
	{
		name:  "without renewal a hold has no longest time",
		file:  "redlock/extend.go",
		edits: []edit{{`ttl > left {`, `ttl > left && l.renewal != nil {`}},
	},
	{
		name:  "with renewal an extension passes the longest hold",
		file:  "redlock/extend.go",
		edits: []edit{{`ttl > left {`, `ttl > left && l.renewal == nil {`}},
	},
	{
		name:  "an extension that leaves late passes the longest hold",
		file:  "redlock/extend.go",
		edits: []edit{{`min(op.deadline(), l.ends)`, `op.deadline()`}},
	},
	{
		name:  "a late release over nodes that do not answer hides that the lock was lost",
		file:  "redlock/release.go",
		edits: []edit{{`case op.outcome != carried && lost:`, `case op.outcome != carried && lost && c == nil:`}},
	},
	{
		name: "a release that is interrupted hides that the lock was lost",
		file: "redlock/release.go",
		edits: []edit{{`
		if lost {
			end =`, `
		if lost && c == nil {
			end =`}},
	},
	{
		name:  "Do hides behind a loss that its release failed",
		file:  "redlock/do.go",
		edits: []edit{{`if !errors.Is(released, ErrNoQuorum) {`, `if fate != nil {`}},
	},
	{
		name:  "locks that were taken together are renewed together",
		file:  "redlock/renewal.go",
		edits: []edit{{`return least + rand.N(most-least)`, `return max(most, least+rand.N(most-least))`}},
	},
	{
		name:  "renewals fall due one by one, and share nothing",
		file:  "redlock/renewal.go",
		edits: []edit{{`due+slot-due%slot`, `due+slot-slot%slot`}},
	},
	{
		name:  "a renewal that stands in a queue is sent again",
		file:  "redlock/renewal.go",
		edits: []edit{{`if stage == waiting || stage == queued {`, `if stage > final {`}},
	},
	{
		name:  "the pause before the next renewal has no least",
		file:  "redlock/renewal.go",
		edits: []edit{{`return max(between(left/8, left/4+1), least)`, `return max(between(left/8, left/4+1), least/1000)`}},
	},
	{
		name:  "extensions leave in the order in which they came, not in that of their leases' ends",
		file:  "redlock/line.go",
		edits: []edit{{`return h[i].op.ends < h[j].op.ends`, `return h[i].op.asked < h[j].op.asked`}},
	},
	{
		name:  "releases wait until no extension is left",
		file:  "redlock/line.go",
		edits: []edit{{`first = min(first, max(maxBatch-maxBatch/4, maxBatch-len(q.others)))`, `first = min(first, maxBatch)`}},
	},
	{
		name:  "what a renewal has waited to leave counts as the node's time",
		file:  "redlock/sender.go",
		edits: []edit{{`if r.op.ends != 0 || r.due`, `if r.due`}},
	},
	{
		name:  "what a try has waited to leave takes a node out",
		file:  "redlock/node.go",
		edits: []edit{{`return r.out(now) >= ln.timeout-ln.timeout/8 })`, `return r != nil })`}},
	},
	{
		name:  "a machine that has slept takes nodes out",
		file:  "redlock/node.go",
		edits: []edit{{`case r.stage == sending && held > r.op.patience()/4:`, `case r.stage == sending && held < 0:`}},
	},
	{
		name:  "a renewal that has waited for a node time-out is given up, though its lease runs",
		file:  "redlock/node.go",
		edits: []edit{{`return now < r.op.ends || n.answered`, `return n.answered`}},
	},
	{
		name:  "a failed renewal does not say how many have failed before it",
		file:  "redlock/renewal.go",
		edits: []edit{{`op.attempt = r.failures + 1`, `op.attempt = 1`}},
	},
	{
		name:   "the answers to extensions that went together go to the next lock",
		file:   "redlock/group.go",
		edits:  []edit{{`if bits>>i&1 == 1 {`, `if bits>>((i+1)%len(g))&1 == 1 {`}},
		suites: []suite{{pkg: "./redlock", run: "Extensions"}},
	},
	{
		name:  "a key that is no lock ends the grouping at its node",
		file:  "redlock/group.go",
		edits: []edit{{`if said.Kind == driver.Failure && strings.Contains(said.Str, "WRONGTYPE") {`, `if n == nil && strings.Contains(said.Str, "WRONGTYPE") {`}},
	},
	{
		name:  "Do is silent about a lock that was lost while the function ran",
		file:  "redlock/do.go",
		edits: []edit{{`case errors.Is(fate, ErrLost):`, `case fate == nil && errors.Is(fate, ErrLost):`}},
	},
}
