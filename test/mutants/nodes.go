package main

// Packages node and gate: the order of commands, which servers may vote, and what may keep a grant from being a vote.
var nodes = []mutant{
	wrong("the commands for a key go to a node as they come, not in a lane",
		in("Node.enter", always(`q.front == nil`))),
	wrong("a try that is in the queue does not make way for its key's holder",
		in("keyQueue.yields", returns(`false`))),
	wrong("a release goes before the acquire that it undoes, where that has not left",
		in("Node.enter", never(`q.tries.has(r)`))),
	wrong("a command about several keys leaves when it is in front for one of them",
		in("Node.come", never(`p.fronts < p.width()`))),
	wrong("a request is decided by a reading of the clock that has not seen the last sleep",
		in("batch.send", replace(`now := clock.Fresh()`, `now := clock.Now()`))),
	wrong("a node's time is up only when its driver says so",
		in("deadlines.arm", replace(`max(0, d.fires`, `max(1<<62, d.fires`))),
	wrong("a machine that has slept takes nodes out",
		in("channel.expire", never(`r.stage == sending && held > r.Patience()/4`))),
	wrong("one server under two addresses votes twice",
		in("Node.identify", never(`i != n.Index && other == f.RunID`))),
	wrong("a replica votes",
		in("Node.OnFitness", replace(`cmp.Or(f.Replica(), err`, `cmp.Or(err`))),
	wrong("a node is not looked at again",
		in("Node.asks", never(`now >= n.nature.due`))),
	wrong("a batch that is sent once more counts without an answer to whose connection it is on",
		in("batch.takeReadings", replace(`b.unfit = errUnasked`, `b.unfit = nil`))),
	wrong("a twin that is found later goes on voting",
		in("Node.OnFitness", replace(`reborn, err := n.identify(&f)`, `reborn, _ := n.identify(&f); var err error`))),
	wrong("a vote of the server that was there before counts",
		in("channel.measured", never(`sent < c.node.health.reborn`)), suite{pkg: "./redlock", run: "WasThereBefore"}),
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
	wrong("an extension is not guarded",
		in("batch.build", replace(`r.Op.Votes`, `r.Op.Votes && r.Op.Name != "extend"`))),
	wrong("a node in quarantine votes",
		in("Gates.Judge", replace(`v = v.done(g)`, `if v = v.done(g); v.Closed { v.Doubt = nil }`))),
	wrong("two nodes with one history vote both",
		in("Twins", always(`own.history != other.history`))),
	wrong("who has heard of one node begins a record",
		in("Restart.watch", never(`!memory.MayBegin(all.views())`))),
	wrong("a grant counts whose look is lost",
		in("Restart.judge", replace(`Verdict{Doubt: s.Err}`, `Verdict{}`))),
	wrong("a node whose clock was set forward votes",
		in("Clock.quarantine", never(`now < c.out`))),
	wrong("a vote counts whose reading of the clock took so long that a step may hide in it",
		in("Clock.Note", never(`r.Excess > 0 && r.Received >= c.out`))),
	wrong("a vote counts that too few replicas have",
		in("Durability.missing", never(`replicas.Int < int64(d.Replicas)`))),
	wrong("a vote counts that an earlier sending brought, of which the proof says nothing",
		in("Gates.Unwritten", replace(`errEarlier`, `nil`))),
}
