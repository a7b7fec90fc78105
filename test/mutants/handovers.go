package main

// Locks that are released here go to the next waiter here.
var handovers = []mutant{
	wrong("no release follows a hand-over that a node did not answer",
		in("Operation.handOn", replace(
			`op.Handoff.put(old)`,
			`op.Handoff.Unanswered(old, nil, op.board().Clock.Now()); op.Handoff.Passed(old)`))),
	wrong("a hand-over hides that the lock was lost",
		in("Part.TookOver", replace(`== takenOver`, `> 0`))),
	wrong("an heir who has left keeps the lock that was on its way to him",
		in("waiter.stop", replace(`if gift := <-w.gift; gift != nil { return gift, nil }`, `<-w.gift`))),
	wrong("hand-overs never end, and other processes wait for ever",
		in("Row.goesOn", never(`r.count >= MaxHandoffs`))),
	wrong("eight hand-overs in a row take as long as eight holds",
		in("Row.goesOn", never(`now.Sub(r.began) >= maxRow`))),
	wrong("hand-overs of two who take turns are never in a row",
		in("lease.handOver", drop(`next.row = row`)), suite{pkg: "./redlock", run: "BesidePlain"}),
}
