package main

// Packages supervise and inspect: a program ends with its lock, and a revocation is final.
var programs = []mutant{
	wrong("only the program itself is killed at its deadline, by the kernel when the guard ends",
		in("guard.kill", replace(`g.family.kill()`, `os.Exit(0)`)), supervised),
	wrong("descendants with a group of their own are not killed",
		in("family.kill", drop(`killBelow()`)), supervised),
	wrong("a late renewal takes back that the program was asked to end",
		in("guard.obey", replace(`g.deadline = max(g.deadline, o.Deadline)`, `if o.Deadline > g.deadline { g.deadline, g.killAt = o.Deadline, 0 }`)), supervised),
	wrong("a program runs on when its renewer is gone",
		in("guard.orphaned", returns(``)), supervised),
	wrong("the grace ends at the deadline, with no margin for killing",
		in("guard.stop", replace(`g.deadline-g.plan.Margin`, `g.deadline`)).in("guard.stopAt", returns(`g.deadline - g.plan.Grace`)), supervised),
	wrong("a guard that is stopped keeps its program alive",
		in("session.refresh", drop(`_ = syscall.Kill(s.guard, syscall.SIGKILL)`)), supervised),
	wrong("a tombstone counts that was put a second time",
		in("revoker.keep", never(`v.clock.Fresh() >= before`)), suite{pkg: "./internal/inspect", run: "Tombstone|Revo"}),
}

var supervised = suite{pkg: "./internal/supervise"}
