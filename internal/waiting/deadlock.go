package waiting

import "slices"

// A waiter whose context carries locks works for them: as a rule they are released after the wait. So locks
// of this process that wait for each other in a ring wait for ever. The ring is looked for when its last
// part comes about: a wait begins, or a line's holder changes. The waiter that closes the ring gives up; the
// others go on.

// A Block is a part of a ring: a waiter for Key, which By holds, works for the holder of the part before.
type Block struct {
	Key string
	By  Holder
}

// works notes that w works for the locks that it carries. ls.mu is held.
func (ls *Lines) works(w *Waiter) {
	if ls.workers == nil && len(w.Carries) > 0 {
		ls.workers = make(map[Holder][]*Waiter)
	}
	for _, lock := range w.Carries {
		ls.workers[lock] = append(ls.workers[lock], w)
	}
}

// worksNoMore ends works. ls.mu is held.
func (ls *Lines) worksNoMore(w *Waiter) {
	for _, lock := range w.Carries {
		all := slices.DeleteFunc(ls.workers[lock], func(other *Waiter) bool { return other == w })
		if ls.workers[lock] = all; len(all) == 0 {
			delete(ls.workers, lock)
		}
	}
}

// judge looks for rings through l, whose holder or last waiter is new: it follows the waiters that work for
// the holder to the holders that they wait for, and so on, back to waiters of l. The cost is the chain
// behind the holder, however many wait in l.
//
// Nothing else closes a ring. A new waiter is a ring's last part, and so is a lock for which a whole line
// waits from now on. A waiter whose position in line changes waits for the same lock. For a new lock, by
// hand-over or not, nobody works yet. A waiter with a promised lock has no holder before it: if the promise
// comes to nothing, its try finds a holder. ls.mu is held.
func (ls *Lines) judge(l *line) {
	if l.holder != nil {
		ls.follow(l, Block{l.first().Key, l.holder}, nil, make(map[Holder]bool))
	}
}

// follow adds a part to a way that begins in l. ls.mu is held.
func (ls *Lines) follow(l *line, part Block, way []Block, been map[Holder]bool) {
	workers := ls.workers[part.By]
	if len(workers) == 0 || been[part.By] || part.By.Left() <= 0 {
		return
	}
	been[part.By] = true
	way = append(way, part)
	for _, w := range workers {
		switch {
		case w.state == promised, w.verdict != nil, w.line.holder == nil, w.Context.Err() != nil:
		case w.line == l:
			w.verdict = ls.Host.Deadlock(way)
			w.nudge()
		default:
			ls.follow(l, Block{w.Key, w.line.holder}, way, been)
		}
	}
}

// verdictOn is the error for which w is to give up, or nil.
func (ls *Lines) verdictOn(w *Waiter) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return w.verdict
}

// Condemn makes w give up, unless it gets its lock before.
func (ls *Lines) Condemn(w *Waiter, verdict error) {
	ls.mu.Lock()
	w.verdict = verdict
	w.nudge()
	ls.mu.Unlock()
}
