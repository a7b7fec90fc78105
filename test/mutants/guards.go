package main

// Nodes that may have forgotten, or whose clocks were set forward.
var guards = []mutant{
	{
		name: "a node in quarantine votes",
		file: "redlock/guard.go",
		edits: []edit{{`
	return shown, doubt
}`, `
	return shown, nil
}`}},
	},
	{
		name:  "a marker admits whatever history it is for",
		file:  "redlock/look.go",
		edits: []edit{{`s.marker.replid == s.replid && `, ``}},
	},
	{
		name: "a marker admits whatever epoch it is for, so that one that runs behind FLUSHALL does",
		file: "redlock/look.go",
		edits: []edit{{` && s.marker.nonce == s.nonce
`, `
`}},
	},
	{
		name: "a quarantine goes on over FLUSHALL",
		file: "redlock/guard.go",
		edits: []edit{{`if w == nil || w.replid != s.replid || w.nonce != s.nonce {`, `if w != nil && w.replid == s.replid {
		w.nonce = s.nonce
	} else {`}},
	},
	{
		name:  "an epoch is sent once more where its connection broke",
		file:  "redlock/batch.go",
		edits: []edit{{`said == nil && broken && !g[0].op.task.once, `, `said == nil && broken, `}},
	},
	{
		name:  "a marker admits for longer leases than it was set for",
		file:  "redlock/guard.go",
		edits: []edit{{`return max(l.options.guard.Milliseconds(), l.greatest.Load())`, `return l.greatest.Load()`}},
	},
	{
		name:  "a marker admits for shorter leases than another that was seen",
		file:  "redlock/guard.go",
		edits: []edit{{`case admitted && s.marker.ms >= longest:`, `case admitted && s.marker.ms >= 0*longest:`}},
	},
	{
		name:  "a marker for longer leases that is seen behind the first votes of a quorum does not spoil them",
		file:  "redlock/look.go",
		edits: []edit{{`if r.shown.marker.ms < least {`, `if r.shown.marker.ms < 0*least {`}},
	},
	{
		name:  "a quarantine takes our own longest TTL, whatever markers say",
		file:  "redlock/guard.go",
		edits: []edit{{`return max(l.options.guard.Milliseconds(), l.greatest.Load())`, `return l.options.guard.Milliseconds()`}},
	},
	{
		name:  "a quarantine is ended by who has read at no other node what to admit it for",
		file:  "redlock/guard.go",
		edits: []edit{{`case witnessed:`, `case witnessed || true:`}},
	},
	{
		name:  "a quarantine is ended by who has heard of no other node",
		file:  "redlock/guard.go",
		edits: []edit{{`max(l.quorum, len(l.nodes)-1)`, `1`}},
	},
	{
		name:  "a quarantine is ended by what was known when its watch began",
		file:  "redlock/guard.go",
		edits: []edit{{`case witnessed:`, `case witnessed || len(missed) <= n.locker.mayMiss():`}},
	},
	{
		name:  "a client of longer leases than the markers say raises them where a node has none",
		file:  "redlock/guard.go",
		edits: []edit{{`case l.shorter() != nil:`, `case l.shorter() == n:`}, {`case n.locker.shorter() == nil:`, `case true:`}},
	},
	{
		name: "of extensions that share a command, only the first is judged by what the look has shown",
		file: "redlock/batch.go",
		edits: []edit{{`			for _, r := range g {
				r.shown = shown
			}`, `			g[0].shown = shown`}},
	},
	{
		name:  "two nodes with one history vote both",
		file:  "redlock/look.go",
		edits: []edit{{`other.shown.replid == r.shown.replid {`, `other.shown == r.shown {`}},
	},
	{
		name:  "a node votes for a client that it does not list",
		file:  "redlock/look.go",
		edits: []edit{{`case !listed:`, `case !listed && size < 0:`}},
	},
	{
		name:  "a node that has left the set votes",
		file:  "redlock/look.go",
		edits: []edit{{`case retired:`, `case retired && size < 0:`}},
	},
	{
		name:  "a client is listed by its id, whatever the number of its nodes",
		file:  "redlock/record.go",
		edits: []edit{{`if e.id == id && slices.Equal(e.sizes, []uint64{uint64(size)}) {`, `if e.id == id && slices.Equal(e.sizes, e.sizes) {`}},
	},
	{
		name:  "an extension that must be understood is ignored",
		file:  "redlock/record.go",
		edits: []edit{{`unknown = unknown || upper`, `unknown = unknown && upper`}},
	},
	{
		name:  "a record of a newer version is no record, and read as if there were none",
		file:  "redlock/look.go",
		edits: []edit{{`if err := parse(s.texts[i]); err != nil {`, `if err := parse(s.texts[i]); err != nil && err != errNewer {`}},
	},
	{
		name:  "a record that is of another type is overwritten",
		file:  "redlock/write.go",
		edits: []edit{{`m.String(), "GET")`, `m.String(), "PX", "3600000")`}},
	},
	{
		name: "Admit admits though a node did not answer",
		file: "redlock/admission.go",
		edits: []edit{{`if step(); !a.force && len(a.failures) > 0 {`, `if step(); !a.force && slices.ContainsFunc(a.failures, func(err error) bool { return !errors.Is(err, ErrNoQuorum) }) {`}, {`	"errors"
`, `	"errors"
	"slices"
`}},
	},
	{
		name:  "Admit admits though a node holds a key of the guard's",
		file:  "redlock/admission.go",
		edits: []edit{{`if used != nil && !a.force {`, `if used != nil && !a.force && a == nil {`}},
	},
	{
		name:  "Admit goes on where another is faster",
		file:  "redlock/admission.go",
		edits: []edit{{`if reply.Kind != driver.Nil && !a.force {`, `if reply.Kind != driver.Nil && !a.force && n == nil {`}},
	},
	{
		name:  "Admit admits one server as two nodes",
		file:  "redlock/admission.go",
		edits: []edit{{`return a.refuse(n, sameServer(other.node))`, `continue`}},
	},
	{
		name:  "a record that may not be set is not named",
		file:  "redlock/write.go",
		edits: []edit{{`w.refused, w.pause = err, 2*w.pause`, `w.refused, w.pause = nil, 2*w.pause`}},
	},
	{
		name:  "a record that may not be set is tried again at every look",
		file:  "redlock/write.go",
		edits: []edit{{`if now < w.next {`, `if now < 0 {`}},
	},
	{
		name:  "who is told of a node that came back empty is advised to admit it",
		file:  "redlock/guard.go",
		edits: []edit{{`case lost && n.guard.known:`, `case lost && n.guard.known && n == nil:`}, {`case lost && n.locker.greatest.Load() > 0:`, `case lost && n.locker.greatest.Load() < 0:`}},
	},
	{
		name: "the look stands in front of the grants",
		file: "redlock/tail.go",
		edits: []edit{
			{`cmds = append(cmds, l.look...)`, `cmds = append(append([]driver.Command{}, l.look...), cmds...)`},
			{`	t.clock = errBlind
`, `	t.clock = errBlind
	if all := t.body + t.proof + t.look + t.time; len(replies) == all {
		votes := append([]driver.Reply{}, replies[t.look:][:t.body+t.proof]...)
		replies = append(append(votes, replies[:t.look]...), replies[all-t.time:]...)
	}
`},
		},
	},
	{
		name: "a grant counts whose look is lost",
		file: "redlock/tail.go",
		edits: []edit{{`t.looked == nil:
		return nil, err`, `t.looked == nil:
		return nil, nil`}},
	},
	{
		name:  "a guarded vote counts however late it comes",
		file:  "redlock/request.go",
		edits: []edit{{`options.guard > 0 && now > `, `options.guard > 0 && now < 0 && now > `}},
	},
	{
		name:  "what the first half of a hold without scripts has found counts whatever the look behind it says",
		file:  "redlock/batch.go",
		edits: []edit{{`g[0].half.doubt = doubt`, `_ = doubt`}},
	},
	{
		name:  "an extension is not guarded",
		file:  "redlock/batch.go",
		edits: []edit{{`b.votes = b.votes || r.op.task.votes`, `b.votes = b.votes || r.op.task.votes && r.op.task.name != "extend"`}},
	},
	{
		name:  "a renewal is not guarded",
		file:  "redlock/batch.go",
		edits: []edit{{`b.votes = b.votes || r.op.task.votes`, `b.votes = b.votes || r.op.task.votes && r.op.task.name != "renew"`}},
	},
	{
		name:  "a hand-over is not guarded",
		file:  "redlock/batch.go",
		edits: []edit{{`b.votes = b.votes || r.op.task.votes`, `b.votes = b.votes || r.op.task.votes && r.op.old == nil`}},
	},
	{
		name:  "a second round for a greater fence is not guarded",
		file:  "redlock/batch.go",
		edits: []edit{{`b.votes = b.votes || r.op.task.votes`, `b.votes = b.votes || r.op.task.votes && (r.op.task.name != "acquire" || r.op == &r.op.lock.acquire)`}},
	},
	{
		name:  "a replica votes if its master's marker is for it",
		file:  "redlock/look.go",
		edits: []edit{{`if value(info.Str, "role:") != "master" {`, `if value(info.Str, "role:") == "" {`}},
	},
	{
		name:  "a quarantine does not allow for drift",
		file:  "redlock/guard.go",
		edits: []edit{{`return longest + clockdrift.Allowance(longest, l.options.drift)`, `return longest + 0*clockdrift.Allowance(longest, l.options.drift)`}},
	},
	{
		name: "a quarantine of one history admits the next",
		file: "redlock/guard.go",
		edits: []edit{{`if w == nil || w.replid != s.replid || w.nonce != s.nonce {`, `if w != nil {
		w.replid, w.nonce = s.replid, s.nonce
	} else {`}},
	},
	{
		name:  "a quarantine begins before the sleep in which the node was started anew",
		file:  "redlock/batch.go",
		edits: []edit{{`if b.exact || b.tail.guarded || b.tail.time > 0 {`, `if b.exact || b.tail.time > 0 {`}},
	},
	{
		name:  "a node whose clock was set forward votes",
		file:  "redlock/guard.go",
		edits: []edit{{`if now < n.clock.out {`, `if now < 0 {`}},
	},
	{
		name:  "a step in the overlap of two batches is not seen",
		file:  "clockdrift/estimator.go",
		edits: []edit{{`	if s.Received < s.Sent {`, `	if n := len(e.readings); s.Received < s.Sent || n > 0 && s.Sent < e.readings[n-1].received {`}},
	},
	{
		name:  "an idle Locker reads no clock",
		file:  "redlock/nodeclock.go",
		edits: []edit{{`if c.timer == nil && !n.closed {`, `if c.timer == nil && n.closed {`}},
	},
	{
		name:  "what drift can hide between two readings of a clock counts for nothing",
		file:  "clockdrift/guard.go",
		edits: []edit{{`gap := max(0, next.received.Sub(r.sent))`, `gap := time.Duration(0)`}},
	},
	{
		name:  "a vote counts whose reading of the clock took so long that a step may hide in it",
		file:  "redlock/nodeclock.go",
		edits: []edit{{`case excess > 0 && received >= c.out:`, `case excess < 0 && received >= c.out:`}},
	},
	{
		name:  "a clock that was read too blurred is not read once more",
		file:  "redlock/batch.go",
		edits: []edit{{`if b.tail.guarded && b.tail.blurred &&`, `if b.tail.guarded && !b.tail.blurred &&`}},
	},
	{
		name:  "a step between two readings of a clock, a second apart, is seen too late",
		file:  "redlock/nodeclock.go",
		edits: []edit{{`always := guarded && n.locker.options.clockGuard > 0`, `always := false`}},
	},
}
