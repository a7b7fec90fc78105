package main

// Nodes that may have forgotten, or whose clocks were set forward.
var guards = []mutant{
	wrong("a node in quarantine votes",
		in("Gates.Judge", replace(`v = v.done(g)`, `if v = v.done(g); v.Closed { v.Doubt = nil }`))),
	wrong("of extensions that share a command, only the first is judged by what the look has shown",
		in("batch.judge", replace(`for _, p := range b.wire.Parts {`, `for i, p := range b.wire.Parts { if i > 0 && p.Op.Prolongs { continue }`))),
	wrong("two nodes with one history vote both",
		in("Twins", always(`own.history != other.history`))),
	wrong("who has heard of one node begins a record",
		in("Restart.watch", never(`!memory.MayBegin(all.views())`))),
	wrong("a memory is watched only while somebody asks for locks",
		in("Restart.watch", drop(`r.timer.Reset(all.Cap() / 2)`))),
	wrong("new nodes are looked at when somebody next asks for a lock",
		in("Restart.begins", never(`other != r`))),
	wrong("a script that a node refuses is not named",
		in("Restart.looked", replace(`r.refused = err`, `r.refused = nil`))),
	wrong("a clock guard's quarantine does not allow for drift",
		in("SitOut", replace(`clockdrift.Allowance(longest, drift)`, `0`))),
	wrong("the look stands in front of the grants",
		in("batch.behind", replace(
			`b.asked = len(cmds) - before`,
			`if b.asked = len(cmds) - before; n.set.Restarts != nil {
	cmds = append(append([]driver.Command{}, cmds[b.body:]...), cmds[:b.body]...)
}`),
		).in("batch.takeReadings", replace(`b.unfit, b.doubt, b.reading = nil, nil, gate.Reading{}`, `b.unfit, b.doubt, b.reading = nil, nil, gate.Reading{}
	if look := len(replies) - b.body - b.fit - b.time; look > 0 && b.node.set.Restarts != nil {
		copy(replies, append(append([]driver.Reply{}, replies[look:look+b.body]...), replies[:look]...))
	}`))),
	wrong("a grant counts whose look is lost",
		in("Restart.judge", replace(`Verdict{Doubt: s.Err}`, `Verdict{}`))),
	wrong("a guarded vote counts however late it comes",
		in("Operation.Answered", never(`now > v.Sent.Add(op.Patience())`))),
	wrong("what the first half of a hold without scripts has found counts whatever the look behind it says",
		in("batch.read", drop(`p.Doubt(b.doubt)`))),
	wrong("an extension is not guarded",
		in("batch.build", replace(`r.Op.Votes`, `r.Op.Votes && r.Op.Name != "extend"`))),
	wrong("a hand-over is not guarded",
		in("batch.build", replace(`r.Op.Votes`, `r.Op.Votes && r.Old == nil`))),
	wrong("a second round for a greater fence is not guarded",
		in("batch.build", replace(`r.Op.Votes`, `r.Op.Votes && r.Op != protocol.Exclusive.Raise`))),
	wrong("a node whose clock was set forward votes",
		in("Clock.quarantine", never(`now < c.out`))),
	wrong("a step in the overlap of two batches is not seen",
		in("Estimator.Add", replace(
			`if s.Received < s.Sent`,
			`if n := len(e.readings); s.Received < s.Sent || n > 0 && s.Sent < e.readings[n-1].received`)), suite{pkg: "./redlock"}),
	wrong("an idle Locker reads no clock",
		in("Node.onTime", replace(`n.clock.timer == nil && !n.closed`, `n.clock.timer == nil && n.closed`))),
	wrong("what drift can hide between two readings of a clock counts for nothing",
		in("Estimator.Excess", replace(`max(0, next.received.Sub(r.sent))`, `time.Duration(0)`)), suite{pkg: "./redlock"}),
	wrong("a vote counts whose reading of the clock took so long that a step may hide in it",
		in("Clock.Note", never(`r.Excess > 0 && r.Received >= c.out`))),
	wrong("a clock that was read too blurred is not read once more",
		in("batch.send", never(`b.gated && b.reading.Blurred`))),
	wrong("a step between two readings of a clock, a second apart, is seen too late",
		in("Node.asks", never(`always`))),
}
