package main

// What a vote is, and how many make a quorum.
var votes = []mutant{
	{
		name:  "a quorum is one node fewer than a majority",
		file:  "redlock/locker.go",
		edits: []edit{{`len(nodes)/2 + 1,`, `max(1, len(nodes)/2),`}},
	},
	{
		name:  "of an even number of nodes, half are a quorum",
		file:  "redlock/locker.go",
		edits: []edit{{`len(nodes)/2 + 1,`, `(len(nodes) + 1) / 2,`}},
	},
	{
		name:  "an attempt is not decided until all nodes have answered",
		file:  "redlock/operation.go",
		edits: []edit{{`case op.agreed >= op.need:`, `case op.agreed >= op.need && op.open == 0:`}},
	},
	{
		name:  "an attempt that cannot succeed any more waits for the rest of the nodes",
		file:  "redlock/operation.go",
		edits: []edit{{`case op.agreed+op.outbid+op.open < op.need:`, `case op.open == 0:`}},
	},
	{
		name:  "a reply that comes after the node's time-out is counted as well",
		file:  "redlock/sender.go",
		edits: []edit{{`r.op.heard(r, err, doubt, now, false)`, `r.op.heard(r, err, doubt, now, true)`}},
	},
	{
		name:  "a node's time is up only when its driver says so",
		file:  "redlock/ages.go",
		edits: []edit{{`wait := max(0, a.fires.Sub(clock.Now()))`, `wait := max(1<<62, a.fires.Sub(clock.Now()))`}},
	},
	{
		name: "one's own token, from a sending whose reply was lost, counts as somebody else's",
		file: "redlock/tasks.go",
		edits: []edit{{`
	case reply.Kind == driver.String && reply.Str == token:
		return Granted, nil
	case reply.Kind == driver.String:
		return Held, nil
	default:`, `
	case reply.Kind == driver.String:
		return Held, nil
	default:`}},
	},
	{
		name: "a reply of an unexpected type to a SET is a vote",
		file: "redlock/tasks.go",
		edits: []edit{{`
		return Held, nil
	default:
		return Failed, unexpected(reply)
	}
}

// The replies to a hold`, `
		return Held, nil
	default:
		return Granted, nil
	}
}

// The replies to a hold`}},
		suites: []suite{{pkg: "./redlock", run: "TestRepliesThatNoServerGives"}},
	},
	{
		name:  "a number that the script does not return is a vote for an extension",
		file:  "redlock/tasks.go",
		edits: []edit{{`reply.Int >= 1 && reply.Int <= most:`, `reply.Int >= 1:`}},
	},
	{
		name:  "attempts share a token",
		file:  "redlock/token.go",
		edits: []edit{{`rand.Read(random[:])`, `rand.Read(random[:0])`}},
	},
}
