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
}
