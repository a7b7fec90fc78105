package main

// Releases and clean-ups, and that they stand behind what they undo.
var releases = []mutant{
	{
		name:  "the commands for a key go to a node as they come, not in a lane",
		file:  "redlock/node.go",
		edits: []edit{{`case o.front == nil:`, `case o.front == nil, n != nil:`}},
	},
	{
		name: "extensions and releases stand behind the tries of their key",
		file: "redlock/lane.go",
		edits: []edit{
			{`if r.op.task.tries || o.tries.has(r) {`, `if r != nil {`},
			{`return f.op.task.tries && f.stage == queued`, `return f == nil && f.stage == queued`},
		},
	},
	{
		name:  "a try that is in the queue does not make way for its key's holder",
		file:  "redlock/lane.go",
		edits: []edit{{`return f.op.task.tries && f.stage == queued`, `return f == nil && f.stage == queued`}},
	},
	{
		name:  "a release goes before the acquire that it undoes, where that has not left",
		file:  "redlock/lane.go",
		edits: []edit{{`if r.op.task.tries || o.tries.has(r) {`, `if r.op.task.tries {`}},
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
		edits: []edit{{`op.clears = true`, `op.clears = false`}},
	},
	{
		name:   "a failed attempt with a token of the user's own is taken back, though his retry may hold the lock",
		file:   "redlock/cleanup.go",
		edits:  []edit{{`return !c.own || c.locker.spent.has(c.token, now)`, `return true`}},
		suites: []suite{{pkg: "./redlock", run: "TestPitfall15"}},
	},
	{
		name:   "a late extension deletes the token of the user's own that a retry has",
		file:   "redlock/cleanup.go",
		edits:  []edit{{`return !c.own || c.locker.spent.has(c.token, now)`, `return true`}},
		suites: []suite{{pkg: "./redlock", run: "ByALateExtension"}},
	},
	{
		name:  "Close deletes a lost token of the user's own",
		file:  "redlock/release.go",
		edits: []edit{{`over := l.ended != nil`, `over := l.given`}},
	},
	{
		name:  "a release of a lost lock deletes the token of the user's own that a retry has",
		file:  "redlock/release.go",
		edits: []edit{{`if lost && c.own {`, `if lost && c.own && c == nil {`}},
	},
	{
		name:   "a release is repeated after its token may be used again",
		file:   "redlock/cleanup.go",
		edits:  []edit{{`return !c.own || c.locker.spent.has(c.token, now)`, `return true`}},
		suites: []suite{{pkg: "./redlock", run: "UsedAgain"}},
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
		name: "an unknown outcome counts from the last failure of its node",
		file: "redlock/cleanup.go",
		edits: []edit{{`
	stays := c.remains(t, now)`, `
	if !n.up() {
		t.heard = 0
	}
	stays := c.remains(t, now)`}},
	},
	{
		name:  "an unknown outcome is forgotten one TTL after the command left, while its node is silent",
		file:  "redlock/claim.go",
		edits: []edit{{`t.heard != 0 && now >= t.heard.Add(ttl)`, `now >= t.since.Add(ttl)`}},
	},
	{
		name:  "the clean-ups of a node that is down are retried one by one",
		file:  "redlock/cleanup.go",
		edits: []edit{{`most, pause = 1, lastPause`, `most, pause = maxBatch, lastPause`}},
	},
	{
		name:  "a node that is down is to be cleaned of ever more",
		file:  "redlock/cleanup.go",
		edits: []edit{{`if !up && len(cs.list) >= maxParked {`, `if !up && len(cs.list) < 0 {`}},
	},
	{
		name:  "what has expired at a node that is down waits for it",
		file:  "redlock/cleanup.go",
		edits: []edit{{`stays := c.remains(t, now) && (c.keeps || !c.locker.closed())`, `stays := c.keeps || !c.locker.closed()`}},
	},
	{
		name:  "an extension that was given up leaves its lease when the lock is lost",
		file:  "redlock/lock.go",
		edits: []edit{{`if l.excess && cause == ErrLost {`, `if l.excess && cause == nil {`}},
	},
	{
		name:  "Close waits for what a minority has",
		file:  "redlock/cleanup.go",
		edits: []edit{{`keeps := owed && gone < c.locker.quorum`, `keeps := owed`}},
	},
	{
		name:  "Close does not wait until a quorum is clean of a failed attempt",
		file:  "redlock/cleanup.go",
		edits: []edit{{`keeps := owed && gone < c.locker.quorum`, `keeps := owed && gone < 0`}},
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
