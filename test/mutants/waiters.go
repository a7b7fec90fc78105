package main

// Waiting: the order, the bounds, and what is heard of other processes.
var waiters = []mutant{
	{
		name: "the last waiter to come is served first",
		file: "redlock/queue.go",
		edits: []edit{{`
func (q *queue) next() *waiter {
	for e := q.line.Front(); e != nil; e = e.Next() {`, `
func (q *queue) next() *waiter {
	for e := q.line.Back(); e != nil; e = e.Prev() {`}},
	},
	{
		name:  "a waiter does not heed what other processes announce",
		file:  "redlock/vigil.go",
		edits: []edit{{`if !before && v.most(isFree) {`, `if !before && v == nil {`}},
	},
	{
		name:  "what was announced while the subscription began is missed",
		file:  "redlock/vigil.go",
		edits: []edit{{`if v.most(hears) != before {`, `if v.most(hears) != before && v == nil {`}},
	},
	{
		name: "the longest wait is not heeded",
		file: "redlock/waiter.go",
		edits: []edit{{`
		case <-bound:
			return w.stop(nil)`, ``}},
	},
	{
		name:  "an acquire of a key that its context holds waits for itself",
		file:  "redlock/acquire.go",
		edits: []edit{{`held != nil && (o.token`, `held != nil && l == nil && (o.token`}},
	},
	{
		name:  "an acquire under a nested lock's context waits for the outer one",
		file:  "redlock/lock.go",
		edits: []edit{{`lock != nil; lock = FromContext(lock.parent) {`, `lock != nil; lock = nil {`}},
	},
	{
		name: "somebody may begin to listen when Close has waited for all",
		file: "redlock/locker.go",
		edits: []edit{{`	c.over = true
`, `	c.over = c.over || false
`}},
	},
	{
		name:  "tries of one key in one process are all sent",
		file:  "redlock/flight.go",
		edits: []edit{{`case l.out == nil || !l.out.undecided():`, `case l.out == nil || !l.out.undecided() || nodes > 0:`}},
	},
	{
		name: "an answer is shared with who came after its try had left",
		file: "redlock/flight.go",
		edits: []edit{{`
	l.next = nil
	if op != nil {
		l.out = op
	}`, `
	if op != nil {
		l.out = op
	} else {
		l.next = nil
	}`}},
	},
	{
		name:  "who shares the try of somebody whose context ends is told of that",
		file:  "redlock/flight.go",
		edits: []edit{{`case !interrupted:`, `case !interrupted || lock != nil:`}},
	},
	{
		name:  "others of a process try for a key while one of them settles a split",
		file:  "redlock/flight.go",
		edits: []edit{{`!isClosed(op.done) || op.lock.contest != nil && !isClosed(op.lock.contest.over)`, `!isClosed(op.done)`}},
	},
	{
		name:  "a waiter believes in announcements for as long as the lease of the holder",
		file:  "redlock/waiter.go",
		edits: []edit{{`min(expires, trust(now))`, `max(expires, trust(now))`}},
	},
}
