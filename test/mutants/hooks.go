package main

// What hooks are told: each start has one end.
var hooks = []mutant{
	wrong("the end of an acquire that is refused before anything is sent is not told",
		in("obtain", replace(`ends(told, lock, err)`, `if o != nil { ends(told, lock, err) }`)), inHooks),
	wrong("the end of a conversion is not told",
		in("Lock.Downgrade", drop(`ends(told, reader, err)`)), inHooks),
	wrong("the end of a hold is told before that of its acquire",
		in("acquisition.over", never(`!a.told`)), inHooks),
	wrong("a hold that was over before its acquire had ended has no end",
		in("ends", drop(`l.attempt.Then(a.later)`)), inHooks),
	wrong("a hold that the deciding vote of an extension finds lost has no end",
		in("Operation.unlock", replace(`op.Attempt.Unlock()`, `op.Attempt.UnlockOnly()`)), inHooks),
	wrong("a hold that was lost unnoticed has no end",
		in("holds.look", drop(`end()`)), inHooks),
	wrong("the hold of a reader that became the writer has no end",
		in("lease.goesOn", replace(`w.attempt.Then(l.attempt.UnlockOnly())`, `l.attempt.UnlockOnly()`)), inHooks),
	wrong("a release that is refused is told as if it had released something",
		in("lease.Release", never(`err != nil`)), inHooks),
	wrong("the attempt that is handed over does not know whose acquire it is of",
		in("Locker.newLock", replace(`lock.told = l, ctx, o.maxHold, o.told`, `lock.told = l, ctx, o.maxHold, nil`)), inHooks),
	wrong("who waits for a lock ends a hold under the mutex of the lines, and so calls hooks there",
		in("attempt.Left", returns(`a.left()`)), suite{pkg: "./redlock", run: "WhoLooksForADeadlock"}),
}

var inHooks = suite{pkg: "./redlock", run: "EachStart|Hook"}
