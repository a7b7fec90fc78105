package main

// When a lease ends, and that nobody believes in it for longer.
var leases = []mutant{
	wrong("no drift is taken off a lease",
		in("Operation.Deadline", returns(`op.Start.Add(op.Lease)`))),
	wrong("a lease counts from the votes, not from before the first byte",
		in("Operation.tally", replace(`op.Start = v.start`, `op.Start = now`))),
	wrong("a lease counts from when the last of its votes was asked for, not the first",
		in("Operation.tally", replace(`v.start < op.Start`, `v.start > op.Start`))),
	wrong("a lease counts from the second sending of a batch, whose first may have set the key",
		in("Operation.Leaves", always(`v.start == 0`))),
	wrong("a quorum that comes after the deadline is a lock",
		in("lease.hold", never(`now >= l.until`))),
	wrong("the context of a lock does not end by a timer",
		in("lease.Context", replace(`l.until.Sub(now), l.expire`, `l.until.Sub(now)+1<<60, l.expire`))),
	wrong("the context of a lock ends at the deadline that it had before an extension",
		in("lease.expire", replace(`l.timer.Reset(l.until.Sub(now))`, `l.end(WhyLost, now)`))),
	wrong("an extension that is decided after the deadline counts",
		in("prolong", drop(`l.check(now)`))),
	wrong("an extension is decided by a reading of the clock that has not seen the last sleep",
		in("Operation.Prepare", never(`what.Prolongs`))),
	wrong("a shorter extension takes back what was granted for longer",
		in("prolong", replace(`max(l.until, min(op.deadline(), l.ends))`, `min(op.deadline(), l.ends)`))),
	wrong("timers are not set right after the machine has slept",
		in("holds.look", never(`slept`))),
}
