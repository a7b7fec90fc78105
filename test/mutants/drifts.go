package main

// Package clockdrift: what is not known for sure is rounded to the safe side.
var drifts = []mutant{
	{
		name:   "the allowance is rounded down",
		file:   "clockdrift/allowance.go",
		edits:  []edit{{`math.Ceil(`, `math.Floor(`}},
		suites: inClockdrift,
	},
	{
		name:   "a deadline does not take the allowance off",
		file:   "clockdrift/instant.go",
		edits:  []edit{{`sub(int64(ttl), int64(Allowance(ttl, factor)))`, `sub(int64(ttl), 0)`}},
		suites: []suite{{pkg: "./clockdrift"}, {pkg: "./redlock"}},
	},
	{
		name: "a clock does not count sleep",
		file: "clockdrift/clock.go",
		edits: []edit{{`
	c.look()
`, `
`}},
		suites: inClockdrift,
	},
	{
		name:   "the drift since a sample is rounded down",
		file:   "clockdrift/estimator.go",
		edits:  []edit{{`return add(int64(float64(apart)*e.rate), 1)`, `return int64(float64(apart) * e.rate)`}},
		suites: inClockdrift,
	},
	{
		name:   "a node's clock is taken to be exact, though TIME cuts off what is below a microsecond",
		file:   "clockdrift/estimator.go",
		edits:  []edit{{`node.Add(resolution).Sub(s.Sent)`, `node.Sub(s.Sent)`}},
		suites: inClockdrift,
	},
	{
		name:   "replies that overtake each other look like a step",
		file:   "clockdrift/estimator.go",
		edits:  []edit{{`case stepped && r.sent < e.began:`, `case stepped && r.sent < 0:`}},
		suites: inClockdrift,
	},
	{
		name:   "of the gap in which a lease began only the time counts since it is over",
		file:   "clockdrift/guard.go",
		edits:  []edit{{`int64(min(r.floor, next.floor))`, `int64(next.floor)`}},
		suites: inClockdrift,
	},
	{
		name:   "small steps of a clock add up unseen",
		file:   "clockdrift/guard.go",
		edits:  []edit{{`		if age > e.leases.longest {`, `		if age > 0 {`}},
		suites: inClockdrift,
	},
	{
		name:   "the mean of the clocks is taken for their median",
		file:   "clockdrift/median.go",
		edits:  []edit{{`return Bounds{Low: values[(n-1)/2], High: values[n/2]}.Mid()`, `return Bounds{Low: values[0], High: values[n-1]}.Mid()`}},
		suites: inClockdrift,
	},
}

var inClockdrift = []suite{{pkg: "./clockdrift"}}
