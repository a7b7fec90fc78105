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

// rests ends that. ls.mu is held.
func (ls *Lines) rests(w *Waiter) {
	for _, lock := range w.carries {
		all := slices.DeleteFunc(ls.workers[lock], func(other *Waiter) bool { return other == w })
		if ls.workers[lock] = all; len(all) == 0 {
			delete(ls.workers, lock)
		}
	}
}

// judge looks for rings through a waiter of l, whose holder may be another one. ls.mu is held.
func (ls *Lines) judge(l *line) {
	if l.holder == nil || len(ls.workers) == 0 {
		return
	}
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		w := e.Value.(*Waiter)
		if len(w.carries) == 0 || w.ring != nil {
			continue
		}
		if w.ring = ls.ring(w, w, make(map[*Waiter]bool)); w.ring != nil {
			w.nudge()
		}
	}
}

// ring returns the parts from w to a lock that first works for, or nil. ls.mu is held.
func (ls *Lines) ring(first, w *Waiter, seen map[*Waiter]bool) []Block {
	holder := w.line.holder
	if seen[w] || w.state == promised || w.ring != nil || w.verdict != nil || holder == nil || w.Context.Err() != nil {
		return nil
	}
	seen[w] = true
	switch {
	case holder.Left() <= 0:
		return nil
	case slices.Contains(first.carries, holder):
		return []Block{{w.Key, holder}}
	}
	for _, next := range ls.workers[holder] {
		if rest := ls.ring(first, next, seen); rest != nil {
			return append([]Block{{w.Key, holder}}, rest...)
		}
	}
	return nil
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
