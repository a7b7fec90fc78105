package main

// Fences, and the store that compares them.
var fences = []mutant{
	{
		name: "a node that has accepted as great a fence before is a vote",
		file: "redlock/fence.go",
		edits: []edit{{`
	case accepted.Int != 1:
		return Outbid, nil`, ``}},
	},
	{
		name: "a node that has lost the token behind the fence is a vote",
		file: "redlock/fence.go",
		edits: []edit{{`
	case holder.Kind == driver.Nil:
		return Absent, nil // it has expired in between
	case holder.Kind != driver.String:
		return Failed, unexpected(holder)
	case holder.Str != token:
		return Taken, nil`, ``}, {`accepted, holder := replies[0], replies[fenceReplies-1]; {`, `accepted := replies[0]; {`}},
	},
	{
		name: "who has the key is asked in front of the fence, not behind it",
		file: "redlock/fence.go",
		edits: []edit{
			{
				`
		driver.Command{Args: args[:6], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[6:10], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[10:14], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[14:16], FirstKey: 1, Keys: 1})`,
				`
		driver.Command{Args: args[14:16], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[:6], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[6:10], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[10:14], FirstKey: 1, Keys: 1})`,
			},
			{`replies = replies[len(replies)-fenceReplies:]`, `last := len(replies); replies = []driver.Reply{replies[last-3], replies[last-2], replies[last-1], replies[last-4]}`},
		},
	},
	{
		name:  "a fence is given out by a reading of the clock that has not seen the last sleep",
		file:  "redlock/operation.go",
		edits: []edit{{`return op.task.prolongs || op.fence != 0`, `return op.task.prolongs`}},
	},
	{
		name:  "the age of a number is that of its operation",
		file:  "redlock/fence.go",
		edits: []edit{{`now >= op.asked.Add(op.ttl) || op.claim.locker.microseconds()-op.fence >= op.ttl.Microseconds()`, `now >= op.asked.Add(op.ttl)`}},
	},
	{
		name: "an attempt that is outbid does not propose a greater fence",
		file: "redlock/acquire.go",
		edits: []edit{{`
	case op.outcome == outbid:
		return l.raise(ctx, lock)
	case op.outcome == split:`, `
	case op.outcome == split:`}},
	},
	{
		name: "the second round counts the votes of the first",
		file: "redlock/raise.go",
		edits: []edit{{`	op.ask(l.nodes, l.quorum)
	err =`, `	op.ask(l.nodes, l.quorum-lock.acquire.agreed)
	err =`}},
	},
	{
		name: "the lease of a lock whose fence was raised counts from the second round",
		file: "redlock/raise.go",
		edits: []edit{{`
		op.start = op.lock.acquire.first()`, ``}},
	},
	{
		name:  "a lock is had whose fence is older than its TTL",
		file:  "redlock/acquire.go",
		edits: []edit{{`case now >= l.until, op.fence != 0 && op.outlived(now):`, `case now >= l.until:`}},
	},
	{
		name:  "fences follow the clock of one node, not the median",
		file:  "redlock/nodeclock.go",
		edits: []edit{{`if median, _ := clockdrift.Median(offsets); len`, `if median, _ := clockdrift.Median(offsets[:1]); len`}},
	},
	{
		name:  "a lock may outlive the counter of its key",
		file:  "redlock/fence.go",
		edits: []edit{{`idle := max(l.options.fenceIdle, 2*ttl)`, `idle := l.options.fenceIdle`}},
	},
	{
		name:  "a raised fence's counter is kept from now on, not from the time that it names",
		file:  "redlock/fence.go",
		edits: []edit{{`ahead := (p - l.microseconds() + 999) / 1000`, `ahead := p - p`}},
	},
	{
		name:  "a failed try cuts the time that a counter is kept",
		file:  "redlock/fence.go",
		edits: []edit{{`"PEXPIRE", c.fenceArg, kept, "GT",`, `"PEXPIRE", c.fenceArg, kept, "XX",`}},
	},
	{
		name:  "a new counter gets no expiry",
		file:  "redlock/fence.go",
		edits: []edit{{`"PEXPIRE", c.fenceArg, kept, "NX",`, `"PEXPIRE", c.fenceArg, kept, "XX",`}},
	},
	{
		name:  "an attempt that was cut off leaves a counter for ever",
		file:  "redlock/fence.go",
		edits: []edit{{`if r.cut {`, `if r.cut && b == nil {`}},
	},
	{
		name:  "an extension does not carry the fence along",
		file:  "redlock/extend.go",
		edits: []edit{{`if l.fence != 0 {`, `if fence := l.Fence(); fence < 0 {`}},
	},
	{
		name: "an heir has no fence of his own",
		file: "redlock/handover.go",
		edits: []edit{{`
	op.proposes()`, `
	_ = op.proposes`}},
	},
	{
		name:   "a store lets in a fence that is older than the last",
		file:   "fence/fence.go",
		edits:  []edit{{`case offered < last:`, `case offered < 0:`}},
		suites: inFence,
	},
	{
		name:   "a store lets in a writer without a fence",
		file:   "fence/fence.go",
		edits:  []edit{{`case offered <= 0:`, `case offered < 0:`}},
		suites: inFence,
	},
	{
		name:   "a guard in memory lets in a fence that is older than the last",
		file:   "fence/guard.go",
		edits:  []edit{{`Check(g.last[resource], fence)`, `Check(0, fence)`}},
		suites: inFence,
	},
	{
		name:   "a guard in memory lets in a writer without a fence",
		file:   "fence/guard.go",
		edits:  []edit{{`; err != nil {`, `; err != nil && fence != 0 {`}},
		suites: inFence,
	},
}

var inFence = []suite{{pkg: "./fence"}}
