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
		return Held, nil`, ``}, {`accepted, holder := replies[0], replies[2]; {`, `accepted := replies[0]; {`}},
	},
	{
		name: "who has the key is asked in front of the fence, not behind it",
		file: "redlock/fence.go",
		edits: []edit{
			{
				`
		driver.Command{Args: args[:6], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[6:9], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[9:11], FirstKey: 1, Keys: 1})`,
				`
		driver.Command{Args: args[9:11], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[:6], FirstKey: 1, Keys: 1},
		driver.Command{Args: args[6:9], FirstKey: 1, Keys: 1})`,
			},
			{`replies = replies[len(replies)-3:]`, `last := len(replies); replies = []driver.Reply{replies[last-2], replies[last-1], replies[last-3]}`},
		},
	},
	{
		name:  "an attempt that is outbid does not propose a greater fence",
		file:  "redlock/acquire.go",
		edits: []edit{{`if lock.acquire.outcome == outbid {`, `if lock.acquire.outcome == outbid && ctx == nil {`}},
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
		edits: []edit{{`case now >= l.until, op.fence != 0 && now >= op.asked.Add(op.ttl):`, `case now >= l.until:`}},
	},
	{
		name:  "fences follow the clock of one node, not the median",
		file:  "redlock/nodeclock.go",
		edits: []edit{{`if median, _ := clockdrift.Median(offsets); len`, `if median, _ := clockdrift.Median(offsets[:1]); len`}},
	},
	{
		name:  "a lock may outlive the counter of its key",
		file:  "redlock/fence.go",
		edits: []edit{{`if 2*ttl <= l.options.fenceIdle {`, `if ttl > 0 {`}},
	},
	{
		name:  "an extension does not carry the fence along",
		file:  "redlock/extend.go",
		edits: []edit{{`if fence := l.Fence(); fence != 0 {`, `if fence := l.Fence(); fence < 0 {`}},
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
