package main

import (
	"errors"
	"fmt"
	"strings"
)

// Three keys at the two nodes of three that answer: a quorum is both. In each tick everybody who
// waits makes one try, in any order with the others and node by node, and gives back what it got if
// that is one node alone. A hold lasts one tick or more, and ends because its client goes on.
// Nothing else is timed, nothing is lost, and nobody dies.
const (
	keys    = 3
	nodes   = 2
	clients = 4 // at most
)

// A set is one of clients, of keys or of nodes.
type set uint8

const (
	a set = 1 << iota
	b
	c
)

const bothNodes set = 1<<nodes - 1

func bit(i int) set          { return 1 << i }
func (s set) has(i int) bool { return s>>i&1 == 1 }
func (s set) several() bool  { return s&(s-1) != 0 }

// A want is what one wait is for.
type want struct {
	keys  set
	reads bool
}

// A kind of client takes what it wants, gives it back, and begins anew at once, without end. Of
// several wants it holds the first while it takes the others, one after the other.
type kind struct {
	wants  []want
	silent bool // its contexts do not say what it holds
	under  bool // it works under a lock of some other key
	writer bool // its ticket rests for readers who work under locks, and for nobody else
}

var kinds = map[rune]kind{
	'T': {wants: []want{{keys: a | b}}},
	'A': {wants: []want{{keys: a}}},
	'B': {wants: []want{{keys: b}}},
	'N': {wants: []want{{keys: b}, {keys: a}}},
	'M': {wants: []want{{keys: b}, {keys: a}}, silent: true},
	'K': {wants: []want{{keys: b}, {keys: a}, {keys: a}, {keys: a}}},
	'Y': {wants: []want{{keys: b}, {keys: c}}},
	'Z': {wants: []want{{keys: c}, {keys: a}}},
	'U': {wants: []want{{keys: a | b | c}}},
	'X': {wants: []want{{keys: c}, {keys: a | b}}},
	'W': {wants: []want{{keys: a}}, writer: true},
	'V': {wants: []want{{keys: a, reads: true}}, under: true},
	'P': {wants: []want{{keys: a, reads: true}, {keys: c}}},
	'Q': {wants: []want{{keys: c}, {keys: a, reads: true}}},
}

// A model is a configuration: the clients, and the rule.
type model struct {
	clients   []kind
	hold      uint8 // at most
	period    uint8 // the shortest; 0: tickets never rest
	doublings uint8
	share     uint8 // a period is no longer than this part of a ticket's age
	ahead     uint8 // by how much the second node's clock is
	slow      bool  // who waits may make no try in a tick, but not twice running
	heedless  set   // who heeds no tickets
	changes   map[string]bool
	longest   uint8 // period
}

// changes are of the rule: it is without one of its parts, or has another one in its place.
var changes = map[string]string{
	"no-direct":    "nobody looks who waits for what he holds",
	"direct-alone": "who passes a ticket that waits for what he holds does not pass those behind it",
	"any-wait":     "a wait that began in a rest passes as well",
	"own-age":      "tickets rest by their own age, and not by the nodes' clocks",
}

// What a client is doing.
const (
	trying    uint8 = iota
	returning       // what it got in vain
	pausing         // until the next tick
	holding
	releasing
)

type client struct {
	stage, doing uint8
	asked, got   set  // of the nodes, in this try
	again        bool // it is not the first try of the wait
	missed       bool // it made no try in the tick before
	left         uint8
}

func (c client) waits() bool { return c.doing != holding && c.doing != releasing }

type state struct {
	clients [clients]client
	holder  [keys][nodes]set
	readers [keys][nodes]set
	line    [keys][nodes]set          // whose tickets stand there
	older   [keys][nodes][clients]set // who is before the client there: who began to wait earlier
	fresh   [clients]set              // whose tickets rested when the client began to wait, and still do
	age     [clients]uint8            // how long it has waited, as far as that matters
	clock   uint8                     // of the first node, as far as that matters
}

// configure makes a model of what the flags say.
func (m *model) configure(letters, rule string) error {
	if letters == "" || len(letters) > clients {
		return fmt.Errorf("want one word of up to %d letters, one for each client, and not %q", clients, letters)
	}
	for _, letter := range letters {
		k, ok := kinds[letter]
		if !ok {
			return fmt.Errorf("there is no client %q", letter)
		}
		m.clients = append(m.clients, k)
	}
	m.changes = map[string]bool{}
	for name := range strings.FieldsFuncSeq(rule, func(r rune) bool { return r == ',' }) {
		if _, ok := changes[name]; !ok {
			return fmt.Errorf("the rule has no change %q", name)
		}
		m.changes[name] = true
	}
	m.longest = m.period << m.doublings
	// What is counted in the state has to fit in a byte.
	if m.hold == 0 || m.period%3 != 0 || m.doublings > 6 || m.share == 0 || int(m.period)<<m.doublings*max(2, int(m.share))+int(m.ahead) > 255 {
		return errors.New("want holds of at least a tick, and a period that is a multiple of 3 and below 128 when it has doubled")
	}
	return nil
}

// start is the state in which all begin to wait, one after the other.
func (m *model) start() state {
	var s state
	for me := range m.clients {
		m.begin(&s, me)
	}
	return s
}

// begin lets a wait begin: the client is the youngest.
func (m *model) begin(s *state, me int) {
	s.age[me], s.fresh[me] = 0, 0
	for k := range keys {
		for n := range nodes {
			s.older[k][n][me] = (1<<len(m.clients) - 1) &^ bit(me)
			for o := range m.clients {
				s.older[k][n][o] &^= bit(me)
			}
		}
	}
	for o := range m.clients {
		s.fresh[o] &^= bit(me)
		if o != me && m.rests(s, o, 0) {
			s.fresh[me] |= bit(o)
		}
	}
}

// wants returns what the client's wait is for.
func (m *model) wants(s *state, me int) want { return m.clients[me].wants[s.clients[me].stage] }

// held returns the keys that the client holds meanwhile.
func (m *model) held(s *state, me int) set {
	if s.clients[me].stage == 0 {
		return 0
	}
	return m.clients[me].wants[0].keys
}

// next emits the states that may follow, who is served by the step, and whether it is a tick: that
// is when nobody has anything left to do.
func (m *model) next(s state, emit func(s state, served set, tick bool)) {
	idle := true
	for me := range m.clients {
		switch s.clients[me].doing {
		case trying:
			idle = false
			m.try(s, me, emit)
		case returning, releasing:
			idle = false
			m.giveBack(s, me, emit)
		}
	}
	if idle {
		m.tick(&s)
		emit(s, 0, true)
	}
}

// try asks one node, any that has not been asked; behind the last one the client knows what it has.
func (m *model) try(s state, me int, emit func(state, set, bool)) {
	if c := s.clients[me]; m.slow && c.asked == 0 && !c.missed {
		t := s
		t.clients[me].doing, t.clients[me].missed = pausing, true
		emit(t, 0, false)
	}
	for n := range nodes {
		if s.clients[me].asked.has(n) {
			continue
		}
		t := s
		m.ask(&t, me, n)
		c := &t.clients[me]
		switch {
		case c.asked != bothNodes:
		case c.got == 0:
			c.again, c.doing, c.asked = true, pausing, 0
		case c.got != bothNodes:
			c.doing = returning
		default:
			m.granted(t, me, emit)
			continue
		}
		emit(t, 0, false)
	}
}

// ask lets node n give the client all keys that it wants, or none.
func (m *model) ask(s *state, me, n int) {
	c, w := &s.clients[me], m.wants(s, me)
	c.asked |= bit(n)
	c.missed = false
	grants := true
	for k := range keys {
		if !w.keys.has(k) {
			continue
		}
		taken := s.holder[k][n] != 0 || !w.reads && s.readers[k][n]&^bit(me) != 0
		grants = grants && !taken && !m.inTheWay(s, me, k, n)
	}
	for k := range keys {
		if !w.keys.has(k) {
			continue
		}
		if !grants || c.again {
			s.line[k][n] |= bit(me)
		}
		switch {
		case !grants:
		case w.reads:
			s.readers[k][n] |= bit(me)
		default:
			s.holder[k][n] = bit(me)
		}
	}
	if grants {
		c.got |= bit(n)
	}
}

// granted lets the client have what it wanted: its tickets go. What it takes for a further wait
// alone is not timed.
func (m *model) granted(s state, me int, emit func(state, set, bool)) {
	c, kind := &s.clients[me], &m.clients[me]
	for k := range keys {
		for n := range nodes {
			s.line[k][n] &^= bit(me)
		}
	}
	c.asked, c.got, c.again = 0, 0, false
	if c.stage == 0 && len(kind.wants) > 1 {
		c.stage, c.doing = 1, pausing
		m.begin(&s, me)
		emit(s, 0, false)
		return
	}
	var served set
	if int(c.stage) == len(kind.wants)-1 {
		served = bit(me)
	}
	s.age[me], c.doing = 0, holding
	for c.left = 1; c.left <= m.hold; c.left++ {
		emit(s, served, false)
	}
}

// giveBack gives back at one node: what a try in vain got, or what the client has held.
func (m *model) giveBack(s state, me int, emit func(state, set, bool)) {
	for n := range nodes {
		if !s.clients[me].got.has(n) {
			continue
		}
		t := s
		c, kind := &t.clients[me], &m.clients[me]
		back := m.wants(&t, me).keys
		ends := c.doing == releasing && int(c.stage) == len(kind.wants)-1
		if ends {
			back |= m.held(&t, me)
		}
		c.got &^= bit(n)
		for k := range keys {
			if back.has(k) {
				t.holder[k][n] &^= bit(me)
				t.readers[k][n] &^= bit(me)
			}
		}
		switch {
		case c.got != 0:
		case c.doing == returning:
			c.again, c.doing, c.asked = true, pausing, 0
		default:
			stage := c.stage + 1
			if ends {
				stage = 0
			}
			*c = client{doing: pausing, stage: stage}
			m.begin(&t, me)
		}
		emit(t, 0, false)
	}
}

// tick lets the next tick begin.
func (m *model) tick(s *state) {
	if m.period > 0 && !m.changes["own-age"] {
		s.clock = (s.clock + 1) % m.longest
	}
	for me := range m.clients {
		c := &s.clients[me]
		switch c.doing {
		case pausing:
			c.doing = trying
		case holding:
			if c.left--; c.left == 0 {
				c.doing, c.got = releasing, bothNodes
			}
		}
		if c.doing == trying && m.mayRest(s, me) {
			s.age[me] = m.ages(s.age[me])
			if !m.rests(s, me, 0) {
				for o := range m.clients {
					s.fresh[o] &^= bit(me)
				}
			}
		}
	}
}

// inTheWay reports whether node n refuses the client for a ticket in the line of key k: that of one
// who is older and excludes him, but for those that rest, and those of who waits for what he holds.
func (m *model) inTheWay(s *state, me, k, n int) bool {
	if m.heedless.has(me) {
		return false
	}
	for o := range m.clients {
		switch {
		case !s.line[k][n].has(o), !s.older[k][n][me].has(o):
		case m.wants(s, me).reads && m.wants(s, o).reads:
		case m.mayPass(s, me, o, n), m.goesFirst(s, me, o, k, n):
		default:
			return true
		}
	}
	return false
}

// goesFirst is the rule D: the owner of the ticket o, or of one before it in the line, waits for
// what the client holds. A node sees that, for his ticket stands in the line of what is held, too.
func (m *model) goesFirst(s *state, me, o, k, n int) bool {
	if m.changes["no-direct"] {
		return false
	}
	var held set
	if !m.clients[me].silent {
		held = m.held(s, me)
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

// mayPass is the rule R: the ticket rests, and the client's wait is older than the rest. A writer's
// ticket rests for readers who work under locks.
func (m *model) mayPass(s *state, me, o, n int) bool {
	readsUnderLock := m.wants(s, me).reads && (m.clients[me].under || s.clients[me].stage > 0)
	if m.clients[o].writer && !readsUnderLock {
		return false
	}
	return m.rests(s, o, n) && (!s.fresh[me].has(o) || m.changes["any-wait"])
}

// mayRest reports whether the client's ticket is one that rests: of a wait for several keys, or of
// a writer.
func (m *model) mayRest(s *state, o int) bool {
	return m.period > 0 && (m.wants(s, o).keys.several() || m.clients[o].writer)
}

// phase returns the clock of node n, and the period of the ticket of o there: it is no longer than
// a share of the ticket's age.
func (m *model) phase(s *state, o, n int) (now, period uint8) {
	age := s.age[o]
	now, period = s.clock, m.period
	if n == 1 {
		age, now = age+m.ahead, now+m.ahead
	}
	if m.changes["own-age"] {
		for now = age; period < m.longest && now >= period; period *= 2 {
			now -= period
		}
		return now, period
	}
	for period < m.longest && int(age) >= 2*int(m.share)*int(period) {
		period *= 2
	}
	return now, period
}

// rests reports whether the ticket of o rests at node n: it does in the last third of each period.
func (m *model) rests(s *state, o, n int) bool {
	if !m.mayRest(s, o) {
		return false
	}
	now, period := m.phase(s, o, n)
	return now%period >= period-period/3
}

// ages returns an age one tick later, as far as that matters.
func (m *model) ages(age uint8) uint8 {
	if !m.changes["own-age"] {
		return min(age+1, max(2, m.share)*m.longest)
	}
	before := m.longest - m.period // the sum of the shorter periods
	if age+1 == before+m.longest {
		return before
	}
	return age + 1
}
