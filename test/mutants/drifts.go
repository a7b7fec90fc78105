package main

// Package clockdrift: what is not known for sure is rounded to the safe side.
var drifts = []mutant{
	wrong("the allowance is rounded down",
		in("clockdrift.Allowance", replace(`math.Ceil`, `math.Floor`))),
	wrong("a deadline does not take the allowance off",
		in("clockdrift.Deadline", replace(`int64(Allowance(ttl, factor))`, `0`))),
	wrong("a clock does not count sleep",
		in("clockdrift.Clock.Fresh", drop(`c.look()`))),
	wrong("a machine that was awake a moment ago is taken to have been so since, whatever the wall clock says",
		in("vigil.at", always(`(lead-a.lead).Abs() < tremble`))),
	wrong("only a wall clock that has moved shows a sleep",
		in("vigil.at", always(`awake-a.awake < vigilance`))),
	wrong("a wall clock that is stepped back hides a sleep",
		in("vigil.at", replace(`(lead-a.lead).Abs() < tremble`, `lead-a.lead < tremble`))),
	wrong("the drift since a sample is rounded down",
		in("Estimator.spread", replace(`add(int64(float64(apart)*e.rate), 1)`, `int64(float64(apart) * e.rate)`))),
	wrong("a node's clock is taken to be exact, though TIME cuts off what is below a microsecond",
		in("Estimator.Add", replace(`node.Add(resolution).Sub(s.Sent)`, `node.Sub(s.Sent)`))),
	wrong("replies that overtake each other look like a step",
		in("Estimator.Add", never(`stepped && r.sent < e.began`))),
	wrong("of the gap in which a lease began only the time counts since it is over",
		in("Estimator.Excess", replace(`min(r.floor, next.floor)`, `next.floor`))),
	wrong("small steps of a clock add up unseen",
		in("Estimator.Excess", replace(`age > e.leases.longest`, `age > 0`))),
	wrong("the mean of the clocks is taken for their median",
		in("clockdrift.middle", replace(`values[(n-1)/2], High: values[n/2]`, `values[0], High: values[n-1]`))),
}
