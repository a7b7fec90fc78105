package lease

import "math"

// What a lock that is converted adds to the explorer: it goes on with another token. Client 0 of such a world is the
// lock as its writer, and client 1 the same lock as its reader. Writers and readers of others come and go at nodes.

// runsFor lets a node run a message about the one token or the other, as the scripts of shared locks do.
func (s *searcher) runsFor(node *server, u int, m *message) {
	me, other := u+1, 2-u
	rivals := node.owner == rival || node.guest && u == 0
	switch {
	case (m.verb == free || m.verb == freeBoth) && node.owner == me:
		m.answer, node.owner, node.age = Granted, 0, 0
	case m.verb == freeBoth && node.owner == other: // the answer is about the command's own token
		m.answer, node.owner, node.age = Absent, 0, 0
	case m.verb == turnBack && node.owner == me:
		m.answer, node.owner, node.age = Granted, other, 0
	case m.verb.frees():
		m.answer = Absent
	case rivals:
		m.answer = Taken
	case node.owner == other && m.verb != downgrade && m.verb != upgrade: // see errOther in package quorum
		m.answer = Failed
	default:
		m.answer, node.owner, node.age = Granted, me, 0
	}
}

// freeing is the command that takes the token of a hold that is over away.
func (s *searcher) freeing(w *situation, u int) verb {
	switch Leaving(w.within && u == 0, w.users[1].hold.Ended()) {
	case ForOther:
		return turnBack
	case Both:
		return freeBoth
	}
	return free
}

// converting is what a lock that may be converted may do next.
func (s *searcher) converting(w *situation, u int) {
	c, first := &w.users[u], 0
	if s.converts == upgrade {
		first = 1
	}
	begins := func(w *situation, u int) {
		w.users[u].hold.Init(s.long(), math.MaxInt64, 0, false)
	}
	switch {
	case c.rounds == 0 && u == first && c.acquires == 0:
		s.step(w, func(w *situation) bool {
			begins(w, u)
			w.users[u].acquires++
			return s.ask(w, u, ToHold, []verb{take, share}[u], 0)
		}, "client %d asks for the key", u)
	case c.rounds == 0:
	case c.hold.phase == Asking && s.nodes == 1:
		s.givesUp(w, u)
	case c.hold.phase == Held:
		s.prolongs(w, u)
		if s.nodes == 1 || u != first {
			s.step(w, func(w *situation) bool { s.releases(w, u); return true }, "client %d releases", u)
		}
		if u == first && w.users[1-u].rounds == 0 {
			s.step(w, func(w *situation) bool { begins(w, 1-u); return s.convert(w) }, "the lock begins its %v", s.converts)
		}
	}
	s.cleaning(w, u)
}

// convert begins a conversion.
func (s *searcher) convert(w *situation) bool {
	writer, reader := &w.users[0].hold, &w.users[1].hold
	if w.within = true; s.converts == upgrade {
		writer.Within(reader.Limit())
		return s.ask(w, 0, ToHold, upgrade, 0)
	}
	if writer.Check(present); writer.phase != Held {
		return false
	}
	reader.GoOn(writer)
	writer.End(Converted, present)
	return s.ask(w, 1, ToExtend, downgrade, 0)
}

// goesOn ends the reader with whose lock the writer goes on, unless it is over.
func (s *searcher) goesOn(w *situation) {
	writer, reader := &w.users[0].hold, &w.users[1].hold
	if reader.Check(present); reader.phase == Over {
		writer.End(Withdrawn, present)
		return
	}
	reader.End(Converted, present)
	reader.Stop()
	w.within = false
}
