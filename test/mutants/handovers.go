package main

// Locks that are released here go to the next waiter here.
var handovers = []mutant{
	wrong("no release follows a hand-over that a node did not answer",
		in("operation.bequeath", replace(
			`r.node.submit(old)`,
			`old.op.vote(old, Absent, nil, op.claim.locker.clock.Now()); r.node.pass([]*request{old})`))),
	wrong("a hand-over hides that the lock was lost",
		in("operation.bequeath", replace(`== takenOver`, `> 0`))),
	wrong("an heir who has left keeps the lock that was on its way to him",
		in("waiter.stop", replace(`if gift := <-w.gift; gift != nil { return gift, nil }`, `<-w.gift`))),
	wrong("hand-overs never end, and other processes wait for ever",
		in("queues.heir", never(`q.row >= maxRow`))),
}
