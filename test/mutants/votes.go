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
		edits: []edit{{`case op.agreed >= op.need && op.stands():`, `case op.agreed >= op.need && op.open == 0:`}},
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
		return Taken, nil
	default:`, `
	case reply.Kind == driver.String:
		return Taken, nil
	default:`}},
	},
	{
		name: "a reply of an unexpected type to a SET is a vote",
		file: "redlock/tasks.go",
		edits: []edit{{`
		return Taken, nil
	default:
		return Failed, unexpected(reply)
	}
}

// The replies to a hold`, `
		return Taken, nil
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
	{
		name: "who asked for a key that nobody got is told that it is held",
		file: "redlock/verdict.go",
		edits: []edit{{`
	case op.task.tells:
		if`, `
	case op.task.tells && op == nil:
		if`}},
	},
	{
		name:  "nobody asks again when the votes were split",
		file:  "redlock/contest.go",
		edits: []edit{{`return mine, mine > 0 && free`, `return mine, mine > len(op.requests) && free`}},
	},
	{
		name:  "nobody lets go when the votes were split",
		file:  "redlock/contest.go",
		edits: []edit{{`if count > mine || count == mine`, `if count > len(op.requests) || count == 0`}},
	},
	{
		name: "a second round counts the votes of the first",
		file: "redlock/contest.go",
		edits: []edit{{`	l.contest.again = op
`, `	op.agreed = l.last().agreed
	l.contest.again = op
`}},
	},
	{
		name:  "the lease of a settled try counts from its second round",
		file:  "redlock/acquire.go",
		edits: []edit{{`op.outcome == carried && op != &l.acquire {`, `op.outcome == carried && op == nil {`}},
	},
	{
		name:  "a split try with a token of the user's own does not ask who has the key",
		file:  "redlock/acquire.go",
		edits: []edit{{`case lock.claim.own && taken(err):`, `case lock.claim.own && taken(err) && l == nil:`}},
	},
	{
		name:  "a holder whose votes a silent node hides is asked for again until the node time-out",
		file:  "redlock/contest.go",
		edits: []edit{{`errors.Is(err, ErrTaken) && holder == before`, `errors.Is(err, ErrTaken) && holder == before && l == nil`}},
	},
	{
		name:  "where silent nodes hide who has the key nobody asks again",
		file:  "redlock/contest.go",
		edits: []edit{{`errors.Is(err, ErrTaken) && holder == before`, `errors.Is(err, ErrTaken) && (holder == before || l != nil)`}},
	},
}
