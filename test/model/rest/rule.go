package main

// inTheWay returns the tickets in the line of key k for which node n refuses the client: those of who is older and excludes
// him, but for those that rest, and those of who waits for what he holds.
func (m *model) inTheWay(s *state, me, k, n int) set {
	if m.heedless.has(me) {
		return 0
	}
	var way set
	for o := range m.clients {
		switch {
		case !s.line[k][n].has(o), !s.older[k][n][me].has(o):
		case m.wants(s, me).reads && m.wants(s, o).reads:
		case m.mayPass(s, me, o, k, n), m.goesFirst(s, me, o, k, n):
		default:
			way |= bit(o)
		}
	}
	return way
}

// goesFirst is the rule D: the owner of the ticket o, or of one before it in the line, waits for what the client holds. A node sees
// that, for his ticket stands in the line of what is held, too.
func (m *model) goesFirst(s *state, me, o, k, n int) bool {
	if m.changes["no-direct"] {
		return false
	}
	var held set
	if !m.clients[me].silent {
		held = m.held(s, me)
	}
	if m.changes["one-process"] && m.process.has(me) {
		for mate := range m.clients {
			if m.process.has(mate) {
				held |= m.has(s, mate)
			}
		}
	}
	for w := range m.clients {
		if !m.wants(s, w).keys.several() || !(s.line[k][n] & s.older[k][n][me]).has(w) {
			continue
		}
		behind := w == o || s.older[k][n][o].has(w) && !m.changes["direct-alone"]
		for h := range keys {
			if behind && held.has(h) && s.line[h][n].has(w) {
				return true
			}
		}
	}
	return false
}

// mayPass is the rule R: the ticket rests, and the client's wait is older than the rest. A writer's ticket rests for readers who
// work under locks.
func (m *model) mayPass(s *state, me, o, k, n int) bool {
	readsUnderLock := m.wants(s, me).reads && (m.clients[me].under || s.clients[me].stage > 0)
	if m.clients[o].writer && !readsUnderLock {
		return false
	}
	if !m.rests(s, o, n) || s.fresh[me].has(o) && !m.changes["any-wait"] {
		return false
	}
	now, period := m.phase(s, o, n)
	turn := int(now / period % m.turns)
	return turn == 0 || turn == k+1
}

// mayRest reports whether the client's ticket is one that rests: of a wait for several keys, or of a writer.
func (m *model) mayRest(s *state, o int) bool {
	return m.period > 0 && (m.wants(s, o).keys.several() || m.clients[o].writer)
}

// phase returns the clock of node n, and the period of the ticket of o there: it is no longer than the ticket is old.
func (m *model) phase(s *state, o, n int) (now, period uint8) {
	age := s.age[o]
	now, period = s.clock, m.period
	if n == 1 {
		age, now = age+m.ahead, now+m.ahead
	}
	if m.byAge() {
		for now = age; period < m.longest && now >= period; period *= 2 {
			now -= period
		}
		return now, period
	}
	for period < m.longest && age >= 2*period {
		period *= 2
	}
	return now, period
}

// byAge reports whether a ticket's periods are those of its own age.
func (m *model) byAge() bool { return m.changes["own-age"] || m.changes["anew"] }

// rests reports whether the ticket of o rests at node n: it does in the last third of each period.
func (m *model) rests(s *state, o, n int) bool {
	if !m.mayRest(s, o) || m.changes["anew"] {
		return false
	}
	now, period := m.phase(s, o, n)
	return now%period >= period-period/3
}

// ages returns an age one tick later, as far as that matters.
func (m *model) ages(age uint8) uint8 {
	if !m.byAge() {
		return min(age+1, 2*m.longest)
	}
	before := m.longest - m.period // the sum of the shorter periods
	if age+1 == before+m.longest {
		return before
	}
	return age + 1
}

// lets returns the tickets that let one pass (one-pass).
func (m *model) lets(s *state, k, n int) set {
	var lets set
	for o := range m.clients {
		if m.changes["one-pass"] && m.wants(s, o).keys.several() && !s.passed[k][n].has(o) {
			lets |= bit(o)
		}
	}
	return lets
}

// has is what a client holds: for one-process.
func (m *model) has(s *state, me int) set {
	has := m.held(s, me)
	if c := s.clients[me]; c.doing == holding || c.doing == releasing {
		has |= m.wants(s, me).keys
	}
	return has
}

// renew gives a wait a new rank (anew): after each of its periods, in the lines of those keys that nobody held alone when
// the client looked last. So whoever waits there now is before it.
func (m *model) renew(s *state, me int) {
	if !m.changes["anew"] {
		return
	}
	if now, period := m.phase(s, me, 0); now%period == 0 {
		s.ended |= bit(me)
	}
	lines := m.wants(s, me).keys
	if !m.changes["all-keys"] {
		lines &^= s.saw[me]
	}
	if !s.ended.has(me) || lines == 0 {
		return
	}
	s.ended &^= bit(me)
	s.due[me] = [nodes]set{lines, lines}
	for k := range keys {
		if lines.has(k) {
			s.anew[me][k] = m.others(me)
			for o := range m.clients {
				s.anew[o][k] &^= bit(me)
			}
		}
	}
}

// look lets node n hear of the client's new rank, and the client see which keys are held.
func (m *model) look(s *state, me, n int) {
	if !m.changes["anew"] || !m.mayRest(s, me) {
		return
	}
	if s.clients[me].asked == 0 {
		s.saw[me] = 0
	}
	for k := range keys {
		if s.due[me][n].has(k) {
			s.behind(me, s.anew[me][k], k, n)
		}
		if m.wants(s, me).keys.has(k) && s.holder[k][n] != 0 {
			s.saw[me] |= bit(k)
		}
	}
	s.due[me][n] = 0
	if s.due[me] == [nodes]set{} {
		s.anew[me] = [keys]set{}
	}
}
