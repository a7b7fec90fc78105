package main

// Package supervise: a program is stopped with all that it has started, and the lock outlasts it.
var programs = []mutant{
	wrong("only the program itself is killed at its deadline, by the kernel when the guard ends",
		in("guard.kill", replace(`g.family.kill()`, `os.Exit(0)`)), supervised),
	wrong("the program is reaped when it ends, and its number is signalled afterwards",
		in("family", replace(`leads bool`, `leads, reaped bool; status syscall.WaitStatus`)).
			in("family.tend", replace(`left := waitID(f.leader, syscall.WEXITED|syscall.WNOWAIT)`,
				`if !f.reaped { pid, _ := syscall.Wait4(f.leader, &f.status, syscall.WNOHANG, nil); f.reaped = pid == f.leader }; left := f.reaped`)).
			in("family.bury", returns(`ended(f.status)`)), supervised),
	wrong("a program is over when it has ended, though its descendants run on",
		in("guard.over", replace(`return gone`, `return leader`)), supervised),
	wrong("descendants with a group of their own are not killed",
		in("family.kill", drop(`killBelow()`)), supervised),
	wrong("processes are reaped under a real-time policy, in which the kernel may spin",
		in("family.tend", drop(`calm()`)), supervised),
	wrong("a late renewal takes back that the program was asked to end",
		in("guard.obey", replace(`g.deadline = max(g.deadline, o.Deadline)`, `if o.Deadline > g.deadline { g.deadline, g.killAt = o.Deadline, 0 }`)), supervised),
	wrong("a program runs on when its renewer is gone",
		in("guard.orphaned", returns(``)), supervised),
	wrong("the grace ends at the deadline, with no margin for killing",
		in("guard.stop", replace(`g.deadline-g.plan.Margin`, `g.deadline`)).in("guard.stopAt", returns(`g.deadline - g.plan.Grace`)), supervised),
	wrong("a guard that is stopped keeps its program alive",
		in("session.refresh", drop(`_ = syscall.Kill(s.guard, syscall.SIGKILL)`)), supervised),
	wrong("a program is started after a signal that should have ended it",
		in("supervise.session.begin", never(`ok && Ends(by)`)), supervised),
}

var supervised = suite{pkg: "./supervise"}
