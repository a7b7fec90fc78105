package main

// What hooks are told: each start has one end.
var hooks = []mutant{
	wrong("the end of an acquire that is refused before anything is sent is not told",
		in("obtain", replace(`case err != nil:`, `case err != nil: return lock, err`)), inHooks),
	wrong("the end of a conversion is not told",
		in("Lock.Downgrade", drop(`ends(told, reader, err)`)), inHooks),
	wrong("the end of a hold is told before that of its acquire",
		in("acquisition.over", always(`a.ended`)), inCallbacks),
	wrong("a hold that was over before its acquire had ended has no end",
		in("acquisition.settle", drop(`a.later()`)), inCallbacks),
	wrong("a release that is refused is told as if it had released something",
		in("lease.Release", never(`err != nil`)), inHooks),
	wrong("the attempt that is handed over does not know whose acquire it is of",
		in("Locker.newLock", replace(`l, o.acquisition`, `l, nil`)), inHooks),
	wrong("what came of a renewal is told in the goroutine that has its answers",
		in("acquisition.extends", never(`e.Renewal`)), inCallbacks),
	wrong("a panic of a hook ends the process",
		in("teller.call", replace(`recover()`, `any(nil)`)), inCallbacks),
	wrong("a hook that ends its goroutine is the last one that is called",
		in("teller.tell", drop(`go t.tell()`)), inCallbacks),
	wrong("a panic at the end of an acquire leaves a lock that nobody has",
		in("ends", never(`!returned && lock != none`)), inCallbacks),
	wrong("a panic of one hook keeps it from the others",
		in("callFrom", replace(`defer callFrom(i+1, calls, call)
		call(i)`, `call(i)
		callFrom(i+1, calls, call)`)), inCallbacks),
	wrong("Close waits for the hook that has called it",
		in("calledByHook", returns(`false`)), inCallbacks),
	wrong("Close does not wait for what is still to be told",
		in("teller.drain", returns(`nil`)), inCallbacks),
	wrong("calls of hooks wait without a bound",
		in("teller.put", never(`waiting >= most`)), inCallbacks),
	wrong("nobody is told how many calls were left out",
		in("teller.take", never(`t.lost.Lost > 0`)), inCallbacks),
}

var inCallbacks = suite{pkg: "./redlock", run: "Callback|APanicAtTheEnd|CloseTells|ALogThatNobodyReads"}

var inHooks = suite{pkg: "./redlock", run: "EachStart|Hook"}
