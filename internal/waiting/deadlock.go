package waiting

import "slices"

// A waiter whose context carries locks works for them: as a rule none of them is released before
// it has what it waits for. So locks of this process that wait for each other in a ring wait for
// ever. The ring is looked for when its last part comes about: a wait begins, or the holder that a
// line waits for is seen to change. The waiter that closes it gives up; the others go on.

// A Block is one part of a ring: who waits for Key, which By has, works for the holder of the part
// before.
type Block struct {
	Key string
	By  Holder
}

// works notes that w works for the locks that its context carries. ls.mu is held.
func (ls *Lines) works(w *Waiter) {
	w.carries = w.Host.Carries(w.Context)
	if ls.workers == nil && len(w.carries) > 0 {
		ls.workers = make(map[Holder][]*Waiter)
	}
	for _, lock := range w.carries {
		ls.workers[lock] = append(ls.workers[lock], w)
	}
}

// worksNoMore ends that. ls.mu is held.
func (ls *Lines) worksNoMore(w *Waiter) {
	for _, lock := range w.carries {
		all := slices.DeleteFunc(ls.workers[lock], func(other *Waiter) bool { return other == w })
		if ls.workers[lock] = all; len(all) == 0 {
			delete(ls.workers, lock)
		}
	}
}

// judge looks for rings through l, of which the holder or the last waiter is new: it follows who
// works for the holder, for the holder that they wait for, and so on, and comes to those waiters of
// l who are part of a ring. So it costs what is behind the holder, however many wait in l.
//
// Nothing else closes a ring. A waiter that comes is its last part, and so is a lock for which all
// of a line wait from now on. A waiter whose position in line changes waits for the same lock. For a
// lock that was just got, by hand-over too, nobody works yet. A waiter that is left out here, because
// it is promised a lock, has no holder before it: if the promise comes to nothing it tries, and finds
// one. ls.mu is held.
func (ls *Lines) judge(l *line) {
	if l.holder != nil {
		ls.follow(l, Block{l.first().Key, l.holder}, nil, make(map[Holder]bool))
	}
}

// follow goes on with a part behind those of a way that begins in l. ls.mu is held.
func (ls *Lines) follow(l *line, part Block, way []Block, been map[Holder]bool) {
	workers := ls.workers[part.By]
	if len(workers) == 0 || been[part.By] || part.By.Left() <= 0 {
		return
	}
	been[part.By] = true
	way = append(way, part)
	for _, w := range workers {
		switch {
		case w.state == promised, w.ring != nil, w.verdict != nil, w.line.holder == nil, w.Context.Err() != nil:
		case w.line == l:
			w.ring = slices.Clone(way)
			w.nudge()
		default:
			ls.follow(l, Block{w.Key, w.line.holder}, way, been)
		}
	}
}

// verdictOn is what w is to give up for, or nil.
func (ls *Lines) verdictOn(w *Waiter) error {
	ls.mu.Lock()
	ring, verdict := w.ring, w.verdict
	ls.mu.Unlock()
	if ring != nil {
		return w.Host.Deadlock(ring)
	}
	return verdict
}

// Condemn lets w give up, unless it gets its lock before.
func (ls *Lines) Condemn(w *Waiter, verdict error) {
	ls.mu.Lock()
	w.verdict = verdict
	w.nudge()
	ls.mu.Unlock()
}
