package main

// Waiting: the order, the bounds, and what is heard of other processes.
var waiters = []mutant{
	wrong("the last waiter to come is served first",
		in("line.next", replace(`l.waiters.Front(); e != nil; e = e.Next()`, `l.waiters.Back(); e != nil; e = e.Prev()`))),
	wrong("a waiter does not heed what other processes announce",
		in("keyWatch.OnMessage", never(`!before && w.quorum(isFree)`))),
	wrong("what was announced while the subscription began is missed",
		in("keyWatch.OnSubscribed", never(`w.quorum(isSubscribed) != before`))),
	wrong("the longest wait is not heeded",
		in("waiter.stand", drop(`case <-bound`))),
	wrong("an acquire of a key that its context holds waits for itself",
		in("Locker.prepare", never(`held != nil`))),
	wrong("an acquire under a nested lock's context waits for the outer one",
		in("Locker.holder", replace(`lock = FromContext(lock.parent)`, `lock = nil`))),
	wrong("somebody may begin to listen when Close has waited for all",
		in("crew.join", drop(`c.over = true`))),
	wrong("tries of one key in one process are all sent",
		in("Keys.Board", always(`l.out == nil || !l.out.undecided()`))),
	wrong("an answer is shared with who came after its try had left",
		in("Keys.Depart", replace(`l.next = nil; if goes { l.out = op }`, `if goes { l.out = op } else { l.next = nil }`))),
	wrong("who shares the try of somebody whose context ends is told of that",
		in("land", always(`!interrupted`))),
	wrong("others of a process try for a key while one of them settles a split",
		in("Operation.undecided", never(`contest != nil && !isClosed(contest.Over)`))),
	wrong("a waiter believes in announcements for as long as the lease of the holder",
		in("waiter.plan", replace(`min(expires`, `max(expires`))),
}
