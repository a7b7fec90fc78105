package main

// When a lease ends, and that nobody believes in it for longer.
var leases = []mutant{
	{
		name:  "no drift is taken off a lease",
		file:  "redlock/operation.go",
		edits: []edit{{`return clockdrift.Deadline(op.start, op.ttl, op.claim.locker.options.drift)`, `return op.start.Add(op.ttl)`}},
	},
	{
		name:  "a lease counts from the votes, not from before the first byte",
		file:  "redlock/operation.go",
		edits: []edit{{`op.start = r.start`, `op.start = now`}},
	},
	{
		name:  "a lease counts from when the last of its votes was asked for, not the first",
		file:  "redlock/operation.go",
		edits: []edit{{`r.start < op.start {`, `r.start > op.start {`}},
	},
	{
		name: "a lease counts from the second sending of a batch, whose first may have set the key",
		file: "redlock/operation.go",
		edits: []edit{{`
	if r.start == 0 {
		r.start = now
	}`, `
	r.start = now`}},
	},
	{
		name:  "a quorum that comes after the deadline is a lock",
		file:  "redlock/acquire.go",
		edits: []edit{{`case now >= l.until, op.fence != 0`, `case op.fence != 0`}},
	},
	{
		name:  "the context of a lock does not end by a timer",
		file:  "redlock/lock.go",
		edits: []edit{{`time.AfterFunc(l.until.Sub(now), l.expire)`, `time.AfterFunc(l.until.Sub(now)+1<<60, l.expire)`}},
	},
	{
		name:  "the context of a lock ends at the deadline that it had before an extension",
		file:  "redlock/lock.go",
		edits: []edit{{`l.timer.Reset(l.until.Sub(now))`, `_ = now; l.end(ErrLost)`}},
	},
	{
		name: "an extension that is decided after the deadline counts",
		file: "redlock/extend.go",
		edits: []edit{{`
	l.check(now)
	if l.ended != nil {
		// Somebody`, `
	if l.ended != nil {
		// Somebody`}},
	},
	{
		name:  "an extension is decided by a reading of the clock that has not seen the last sleep",
		file:  "redlock/operation.go",
		edits: []edit{{`return op.task.prolongs || op.fence != 0`, `return op.fence != 0`}},
	},
	{
		name:  "a shorter extension takes back what was granted for longer",
		file:  "redlock/extend.go",
		edits: []edit{{`l.until = max(l.until, min(op.deadline(), l.ends))`, `l.until = min(op.deadline(), l.ends)`}},
	},
	{
		name:  "timers are not set right after the machine has slept",
		file:  "redlock/resume.go",
		edits: []edit{{`	if slept {`, `	if slept && h == nil {`}},
	},
}
