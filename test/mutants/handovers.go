package main

// Locks that are released here go to the next waiter here.
var handovers = []mutant{
	{
		name: "no release follows a hand-over that a node did not answer",
		file: "redlock/handover.go",
		edits: []edit{{`
		r.node.submit(old)
		return`, `
		old.op.vote(old, Absent, nil, op.claim.locker.clock.Now())
		r.node.pass([]*request{old})
		return`}},
	},
	{
		name:  "a hand-over hides that the lock was lost",
		file:  "redlock/handover.go",
		edits: []edit{{`if r.reply[0].Int == takenOver {`, `if r.reply[0].Int > 0 {`}},
	},
	{
		name: "an heir who has left keeps the lock that was on its way to him",
		file: "redlock/waiter.go",
		edits: []edit{{`
		if gift := <-w.gift; gift != nil {
			return gift, nil
		}
	}
	last := w.last`, `
		<-w.gift
	}
	last := w.last`}},
	},
	{
		name:  "hand-overs never end, and other processes wait for ever",
		file:  "redlock/queue.go",
		edits: []edit{{`case q.row >= maxRow:`, `case q.row < 0:`}},
	},
}
