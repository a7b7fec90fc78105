package main

// Nodes that may have forgotten, or whose clocks were set forward.
var guards = []mutant{
	{
		name: "a node in quarantine votes",
		file: "redlock/guard.go",
		edits: []edit{{`
	n.announce()
	return doubt`, `
	n.announce()
	return nil`}},
	},
	{
		name:  "a marker admits whatever history it is for",
		file:  "redlock/guard.go",
		edits: []edit{{`if admitted == history && short`, `if admitted != "" && short`}},
	},
	{
		name:  "a marker admits for longer leases than it was set for",
		file:  "redlock/guard.go",
		edits: []edit{{`if admitted == history && short >= l.options.guard {`, `if admitted == history {`}},
	},
	{
		name:  "an extension is not guarded",
		file:  "redlock/guard.go",
		edits: []edit{{`return r.op.task.votes })`, `return r.op.task.votes && r.op.task.name != "extend" })`}},
	},
	{
		name:  "a renewal is not guarded",
		file:  "redlock/guard.go",
		edits: []edit{{`return r.op.task.votes })`, `return r.op.task.votes && r.op.task.name != "renew" })`}},
	},
	{
		name:  "a hand-over is not guarded",
		file:  "redlock/guard.go",
		edits: []edit{{`return r.op.task.votes })`, `return r.op.task.votes && r.op.old == nil })`}},
	},
	{
		name:  "a second round for a greater fence is not guarded",
		file:  "redlock/guard.go",
		edits: []edit{{`return r.op.task.votes })`, `return r.op.task.votes && (r.op.task.name != "acquire" || r.op == &r.op.lock.acquire) })`}},
	},
	{
		name:  "a replica votes if its master's marker is for it",
		file:  "redlock/guard.go",
		edits: []edit{{`if value(info.Str, "role:") != "master" {`, `if value(info.Str, "role:") == "" {`}},
	},
	{
		name:  "a quarantine does not allow for drift",
		file:  "redlock/guard.go",
		edits: []edit{{`return longest + clockdrift.Allowance(longest, l.options.drift)`, `return longest`}},
	},
	{
		name: "a quarantine of one history admits the next",
		file: "redlock/guard.go",
		edits: []edit{
			{`func() { n.mark(history) })`, `func() { n.mu.Lock(); history := n.guard.history; n.mu.Unlock(); n.mark(history) })`},
			{`if n.guard.history != history {
		n.admitted()`, `if n.guard.timer != nil {
		n.guard.history = history
	} else if n.guard.history != history {
		n.admitted()`},
		},
	},
	{
		name:  "a node whose clock was set forward votes",
		file:  "redlock/guard.go",
		edits: []edit{{`if now < n.guard.stepped {`, `if now < 0 {`}},
	},
	{
		name:  "a step between two readings of a clock, a second apart, is seen too late",
		file:  "redlock/nodeclock.go",
		edits: []edit{{`always := guarded && n.locker.options.clockGuard > 0`, `always := false`}},
	},
}
