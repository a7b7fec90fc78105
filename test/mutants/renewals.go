package main

// Renewal and Do.
var renewals = []mutant{
	{
		name: "a renewal that failed is not tried again",
		file: "redlock/renewal.go",
		edits: []edit{{`
	r.failed = op
	r.timer.Reset(max(pause, time.Millisecond))`, `
	r.failed = op
	_ = pause`}},
	},
	{
		name:  "the context of a lock that renewal could not keep does not say what the nodes said",
		file:  "redlock/lock.go",
		edits: []edit{{`l.cause = l.renewal.cause()`, `l.cause = cause`}},
	},
	{
		name:  "renewal goes on for an hour after the longest hold",
		file:  "redlock/renewal.go",
		edits: []edit{{`r.ends = start.Add(r.options.maxHold)`, `r.ends = start.Add(r.options.maxHold).Add(time.Hour)`}},
	},
	{
		name:  "Do is silent about a lock that was lost while the function ran",
		file:  "redlock/do.go",
		edits: []edit{{`case errors.Is(fate, ErrLost):`, `case fate == nil && errors.Is(fate, ErrLost):`}},
	},
}
